-- Reserves units of a bucket or of a window aligned to the clock, and confirms or releases them:
-- the two-phase commit of requests over several slots, for parts with one line. It does what the
-- general script does, in a fraction of the time: it has no functions, which a script would create in
-- every call. If every other slot has reserved already, it charges immediately what it would reserve.
--
-- KEYS     the key of each request
-- ARGV[1]  the requests, packed (see `script_request.rs`)
-- Replies as the general script does, with an additional status for a key that needs that script,
-- and was not changed: its limit has changed, or it has holds other than reservations.

local call, pack, read, byte, min = redis.call, struct.pack, struct.unpack, string.byte, math.min
local floor, ceil, max, sub = math.floor, math.ceil, math.max, string.sub

-- As in the general script: the kind of a window, the steps, the first byte of a state with holds,
-- the bytes of a hold, the most holds of a key, and the statuses.
local FIXED_CLOCK, RESERVE, CONFIRM, HELD, HOLD, HOLDS_MAX = 1, 1, 2, 128, 20, 239
local DENIED, ALLOWED, BLOCKED, NEEDS_GENERAL = 0, 1, 2, 3

local requests, position, replies = ARGV[1], 1, pack('>I7', now)
-- By key, what is stored, the new state, and when that expires.
local stored, states, expiries = {}, {}, {}
for i = 1, #KEYS do
  local key = KEYS[i]
  stored[key] = call('GET', key)
  states[key] = stored[key] or ''
end
for i = 1, #KEYS do
  local key, step, kind, span, cap, judged, take, times, id, is_enforced, lasts = KEYS[i]
  step, kind, span, cap, judged, take, times, id, position =
    read('>BBI6I4I4I4I4c8', requests, position)
  if step ~= CONFIRM then is_enforced, lasts, position = read('>BI5', requests, position) end
  local state = states[key]
  -- The reservations of other requests: their number, their sum, the end of the last one, and their
  -- encoding; and the units that are reserved for this request.
  local count, held, last, others, mine, is_short = 0, 0, 0, '', false, true
  if byte(state) == HELD then
    local front = 2 + HOLD * byte(state, 2)
    for from = 3, front, HOLD do
      local name, units, till = read('>c8I5I7', state, from)
      local first = byte(name)
      if first > 127 or till > now + 1000 * 2 ^ first then
        is_short = false
      elseif name == id then
        mine = till > now and units
      elseif till > now then
        count, held, last = count + 1, held + units, max(last, till)
        others = others .. sub(state, from, from + HOLD - 1)
      end
    end
    state = sub(state, front + 1)
  end
  -- The time at which the bucket is full again, or the units used in the window; and the number of
  -- free units.
  local at, used, free, ends = now, 0, cap, 0
  if kind == FIXED_CLOCK then ends = now - now % span + span end
  if not is_short or state == '' then
    -- Nothing else to read.
  elseif #state ~= 18 or byte(state) ~= kind then
    is_short = false
  elseif kind == FIXED_CLOCK then
    local _, till, was, its = read('>BI7I4I6', state)
    if till <= now then
      state = ''
    else
      used, free = was, cap - was
      is_short = till == ends and its == span and was <= cap
    end
  else
    local _, till, its, its_cap = read('>BI7I6I4', state)
    is_short = its == span and till <= now + min(cap, its_cap) * span
    if till <= now then
      state = ''
    elseif is_short then
      at, free = till, cap - ceil((till - now) / span)
    end
  end
  local status, units, front = ALLOWED, 0, ''
  if not is_short then
    status = NEEDS_GENERAL
  elseif step ~= CONFIRM then
    local fits = 0
    if judged > free then
      status = is_enforced == 1 and DENIED or ALLOWED
    elseif judged + held > free or count >= HOLDS_MAX then
      status = BLOCKED
    else
      fits = take == 0 and times or min(times, 1 + floor((free - held - judged) / take))
    end
    units = fits * take
    replies = replies .. pack('>BI2I4', status, 4 + #state, fits) .. state
    if units > 0 and step == RESERVE then
      count, last, others = count + 1, max(last, now + lasts), others .. pack('>c8I5I7', id, units,
        now + lasts)
    end
  elseif times > 0 and take > 0 and not mine then
    status = DENIED
  elseif times * take > min(free, mine or 0) then
    -- The limit was another one when these units were reserved, or a denied request was charged.
    status = NEEDS_GENERAL
  else
    units = times * take
  end
  if units > 0 and step ~= RESERVE then
    if kind == FIXED_CLOCK then
      state = pack('>BI7I4I6', kind, ends, used + units, span)
    else
      at = at + units * span
      state = pack('>BI7I6I4', kind, at, span, cap)
    end
  end
  if step == CONFIRM or status == NEEDS_GENERAL then replies = replies .. pack('B', status) end
  if units > 0 or mine and status ~= NEEDS_GENERAL then
    if count > 0 then front = pack('>BB', HELD, count) .. others end
    if state ~= '' then last = max(last, kind == FIXED_CLOCK and ends or at) end
    states[key], expiries[key] = front .. state, last
  end
end
for key, at in pairs(expiries) do
  if at > 0 then
    call('SET', key, states[key], 'PXAT', string.format('%d', ceil(at / 1000) + origin))
  elseif stored[key] then
    call('DEL', key)
  end
end
return replies
