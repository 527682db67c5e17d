
-- The lines of requests, and the decisions on them.

local requests, position, place = ARGV[1], 1, 0
local replies = { pack('>I7', now) }
-- Reservations to store, and those to remove, which are false.
local records, record_ends = {}, {}

-- If a request has several limits on one key, the smallest judges it and the `widest` is charged.
local function next_line()
  local line, is_wider = {}
  line.kind, line.segments, line.role, line.cap, line.kept, line.span, line.units, line.take,
    line.denied_cost, line.refund, is_wider, position =
    read('>BBBI4I4I6I5I5I5I5B', requests, position)
  line.widest = line
  if is_wider == 1 then
    local widest = { kind = line.kind, segments = line.segments }
    widest.cap, widest.kept, widest.span, position = read('>I4I4I6', requests, position)
    line.widest = widest
  end
  place = place + 1
  line.account = account(KEYS[place], line)
  return line
end

-- Judges the lines of a request: whether it is certainly denied, whether it is blocked only by a
-- reservation of another request, and whether all of its quotas are exceeded. If shadow limits give
-- way, reserved units count as consumed there where they block the request, which these limits must
-- not keep waiting.
local function judge(lines, states, gives_way)
  local denied, blocked, quotas, quotas_over = false, false, 0, 0
  for i, line in ipairs(lines) do
    local a, role, units = line.account, line.role, line.units
    local held = gives_way and role == SHADOW and a.held or 0
    local log_reply, state, full = ALGORITHMS[a.kind].reply
    if not log_reply then
      state, full = encode_for_reply(a, 0), held > 0 and encode_for_reply(a, held)
    end
    if line.refund > 0 then refund(a, line, line.refund) end
    line.denied = role ~= UNJUDGED and not fits(a, line, units)
    if role == UNJUDGED or line.denied or a.held == 0 or fits(a, line, units + a.held) then
      held = 0
    elseif held > 0 then
      line.denied, state = true, full
    else
      blocked = true
    end
    states[i] = state or log_reply(a, line, held)
    if role == QUOTA then quotas = quotas + 1 end
    if line.denied and role == ENFORCE then denied = true end
    if line.denied and role == QUOTA then quotas_over = quotas_over + 1 end
  end
  return denied, blocked, quotas > 0 and quotas == quotas_over
end

local function charge(lines, denied)
  for _, line in ipairs(lines) do
    if not denied then
      if not line.denied then take(line.account, line.widest, line.take) end
    elseif line.denied_cost > 0 then
      charge_denied(line.account, line.widest, line.denied_cost)
    end
  end
end

local function reply(status, states)
  replies[#replies + 1] = status
  for _, state in ipairs(states) do
    replies[#replies + 1] = pack('>I2', #state)
    replies[#replies + 1] = state
  end
end

-- Decides a whole request, which has its keys in one slot.
local function decide(lines, gives_way)
  local states = {}
  local denied, blocked, all_over = judge(lines, states, gives_way)
  denied = denied or all_over
  if blocked and not denied then return reply(BLOCKED, states) end
  charge(lines, denied)
  reply(denied and DENIED or ALLOWED, states)
end
