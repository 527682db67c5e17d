-- Decides requests with several limits, all or nothing: buckets and windows aligned to the clock,
-- which take or peek units. It does what the general script does, in a fraction of the time: it has
-- no functions, which a script would create in every call.
--
-- KEYS     the key of each line (one limit of a request), request by request
-- ARGV[1]  the requests, packed (see `script_request/joint.rs`)
-- Replies as the general script does, with an additional status for a request that needs that
-- script, and was not charged: a limit has changed, or a key has holds other than reservations.

local call, pack, read, byte = redis.call, struct.pack, struct.unpack, string.byte
local ceil, max, min, sub = math.ceil, math.max, math.min, string.sub

-- As in the general script: the kind of a window, the roles of a line, the first byte of a state
-- with holds, the bytes of a hold, and the statuses.
local FIXED_CLOCK, ENFORCE, QUOTA, HELD, HOLD = 1, 0, 2, 128, 20
local DENIED, ALLOWED, BLOCKED, NEEDS_GENERAL = 0, 1, 2, 3

local requests, position, place, replies = ARGV[1], 1, 0, { pack('>I7', now) }
-- By key, what is stored, or was written by an earlier request, and when that expires.
local states, expiries, stored = {}, {}, false
if not has_undeclared then stored = call('MGET', unpack(KEYS)) end
for i = 1, #KEYS do
  if stored then
    states[KEYS[i]] = stored[i] or ''
  else
    states[KEYS[i]] = call('GET', KEYS[i]) or ''
  end
end
-- By line of a request: its encoded holds and when the last of them ends, its limit, the units to
-- take, none if they do not fit, and the state before: when a bucket is full again, or the units
-- used in a window and when that ends.
local fronts, lasts, kinds, spans, caps, takes, words, ends = {}, {}, {}, {}, {}, {}, {}, {}
while position <= #requests do
  local count, first, status = byte(requests, position), place, ALLOWED
  local is_denied, is_blocked, quotas, quotas_over = false, false, 0, 0
  local status_at = #replies + 1
  position, replies[status_at] = position + 1, ''
  for i = 1, count do
    place = place + 1
    local state, front, live, last, held, is_plain = states[KEYS[place]], '', 0, 0, 0, true
    local kind, role, span, cap, judged, take
    kind, role, span, cap, judged, take, position = read('>BBI6I4I4I4', requests, position)
    if byte(state) == HELD then
      local size = 2 + HOLD * byte(state, 2)
      for from = 3, size, HOLD do
        local sort, _, units, till = read('>BI7I5I7', state, from)
        if sort > 127 or till > now + 1000 * 2 ^ sort then is_plain = false end
        if till > now then
          live, held, last = live + 1, held + units, max(last, till)
          front = front .. sub(state, from, from + HOLD - 1)
        end
      end
      if live > 0 then front = pack('>BB', HELD, live) .. front end
      state = sub(state, size + 1)
    end
    local word, free, till = now, cap, 0
    if kind == FIXED_CLOCK then word, till = 0, now - now % span + span end
    if state == '' then
      -- Nothing was charged.
    elseif #state ~= 18 or byte(state) ~= kind then
      is_plain = false
    elseif kind == FIXED_CLOCK then
      local _, at, used, its = read('>BI7I4I6', state)
      if at <= now then
        state = ''
      else
        word, free = used, cap - used
        is_plain = is_plain and at == till and its == span and used <= cap
      end
    else
      local _, at, its, its_cap = read('>BI7I6I4', state)
      is_plain = is_plain and its == span and at <= now + min(cap, its_cap) * span
      if at <= now then
        state = ''
      elseif is_plain then
        word, free = at, cap - ceil((at - now) / span)
      end
    end
    local fits = judged <= free
    if not is_plain then
      status = NEEDS_GENERAL
    elseif fits and held > 0 and judged + held > free then
      is_blocked = true
    end
    if role == QUOTA then quotas, quotas_over = quotas + 1, quotas_over + (fits and 0 or 1) end
    if role == ENFORCE and not fits then is_denied = true end
    fronts[i], lasts[i], kinds[i], spans[i], caps[i] = front, last, kind, span, cap
    takes[i], words[i], ends[i] = fits and take or 0, word, till
    replies[#replies + 1] = (state == '' and '\0\0' or '\0\18') .. state
  end
  if status == NEEDS_GENERAL then
    for i = #replies, status_at + 1, -1 do replies[i] = nil end
  elseif is_denied or quotas > 0 and quotas == quotas_over then
    status = DENIED
  elseif is_blocked then
    status = BLOCKED
  else
    for i = 1, count do
      local key, kind, span, at, take = KEYS[first + i], kinds[i], spans[i], ends[i], takes[i]
      if take > 0 then
        if kind == FIXED_CLOCK then
          states[key] = fronts[i] .. pack('>BI7I4I6', kind, at, words[i] + take, span)
        else
          at = words[i] + take * span
          states[key] = fronts[i] .. pack('>BI7I6I4', kind, at, span, caps[i])
        end
        expiries[key] = max(lasts[i], at)
      end
    end
  end
  replies[status_at] = string.char(status)
end
for key, at in pairs(expiries) do
  call('SET', key, states[key], 'PXAT', string.format('%d', ceil(at / 1000) + origin))
end
return table.concat(replies)
