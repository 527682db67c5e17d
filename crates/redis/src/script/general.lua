-- Decides requests of any kind: all algorithms, several limits, refunds, peeks, changed limits.
--
-- KEYS     the key of each line, request by request
-- ARGV[1]  the requests, packed (see `question.rs`)
-- Answers with the time and, for each request, whether it is admitted, refused, or blocked by a
-- reservation, and what was remembered for each of its lines before it was charged: from that,
-- core's own functions make the verdict.
--
-- All times are whole microseconds since 1970. Every number here is a whole number below 2^53,
-- where doubles are exact: moments until the year 2255, and a bucket's whole span of at most 100
-- years. The only products that could be larger are made by `scale`.

local call, pack, read, byte = redis.call, struct.pack, struct.unpack, string.byte
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local origin = 0

local FIXED_CLOCK, FIXED_FIRST, LOG, SLIDING, TOKEN, LEAKY = 1, 2, 3, 4, 5, 6
local ENFORCE, QUOTA, UNJUDGED = 0, 2, 3
local RESERVE, CONFIRM, LEASE, REPORT = 1, 2, 4, 5
local REFUSED, ADMITTED, BLOCKED = '\0', '\1', '\2'
local WORD = 4294967296
-- How far ahead the end of a lease can lie, unless the clock has gone back.
local LEASE_LASTS = 10000000
-- Leases and holds of any kind that one key has at most: the number of holds is one byte.
local LEASES_MAX, HOLDS_MAX = 100, 250
-- The longest debt of a bucket, and the most units of any counter that are remembered.
local DEBT_MAX, USED_MAX = 3153600000000000, 4294967295
-- The most units that one line asks.
local UNITS_MAX = 1099511627775
-- How long a window's count outlives it, for reports that come late.
local LATE = 900000

-- A key expires at the first whole millisecond at which nothing is remembered any more.
local function milliseconds(forget_at)
  return string.format('%d', ceil(forget_at / 1000) + origin)
end

-- floor(a * b / c) and what is left over; b <= c < 2^45. Long division by digits of 7 bits.
local function scale(a, b, c)
  local product = a * b
  if product < 4503599627370496 then
    return floor(product / c), product % c
  end
  local quotient, rest, weight = 0, 0, 562949953421312
  repeat
    rest = rest * 128 + floor(a / weight) % 128 * b
    quotient = quotient * 128 + floor(rest / c)
    rest = rest % c
    weight = weight / 128
  until weight < 1
  return quotient, rest
end

-- Sliding logs: a header, then one entry of 11 bytes for each moment at which units were admitted,
-- with the sum of all units up to it (modulo 2^32). Entries are found by bisection, added at the
-- end, and forgotten by counting them as dead; the dead are cleared away once they are the half.

local HEADER, ENTRY = 22, 11

local function log_header(a)
  return pack('>BI6I7I4I4', LOG, a.span, a.shift, a.dead, a.base)
end

local function log_entry(a, index)
  local from = a.prefix + HEADER + ENTRY * index
  local at, sum = read('>I7I4', call('GETRANGE', a.key, from, from + ENTRY - 1))
  return at - a.shift, sum
end

-- The first entry from `low` on for which `holds`, which stays true once it is; `high` if none.
local function log_find(a, low, high, holds)
  local step = 1
  while low + step <= high and not holds(log_entry(a, low + step - 1)) do
    low = low + step
    step = step * 2
  end
  high = min(high, low + step - 1)
  while low < high do
    local middle = floor((low + high) / 2)
    if holds(log_entry(a, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

local function log_open(a)
  a.n = (call('STRLEN', a.key) - a.prefix - HEADER) / ENTRY
  a.last_at, a.sum = log_entry(a, a.n - 1)
end

local function log_settle(a)
  if a.n == 0 then return end
  if a.last_at > now then
    a.shift = a.shift + a.last_at - now
    a.last_at, a.dirty = now, true
  end
  local first = log_find(a, a.dead, a.n, function(at) return now - at < a.span end)
  if first == a.n then
    a.n, a.used = 0, 0
    return
  end
  if first > a.dead then
    local _, sum = log_entry(a, first - 1)
    a.base, a.dead = sum, first
  end
  a.used = (a.sum - a.base) % WORD
end

-- The moment at which the `need` oldest units have left.
local function log_left(a, need)
  local index = log_find(a, a.dead, a.n, function(_, sum) return (sum - a.base) % WORD >= need end)
  return (log_entry(a, index)) + a.span
end

-- What stands in front of the log is written last, by `log_save`.
local function log_write(a, entries)
  call('SET', a.key, string.rep('\0', a.prefix) .. log_header(a) .. entries)
end

-- At a moment that is not before the newest entry.
local function log_take(a, units, at)
  a.used, a.dirty = a.used + units, true
  if a.n == 0 then
    a.n, a.shift, a.dead, a.base, a.sum = 1, 0, 0, 0, units
    log_write(a, pack('>I7I4', at, units))
  else
    local same = a.last_at == at
    a.sum = (a.sum + units) % WORD
    local entry = pack('>I7I4', at + a.shift, a.sum)
    if same then
      call('SETRANGE', a.key, a.prefix + HEADER + ENTRY * (a.n - 1), entry)
    else
      call('APPEND', a.key, entry)
      a.n = a.n + 1
    end
  end
  a.last_at, a.stored = at, true
end

local function log_refund(a, units)
  if a.used == 0 then return end
  a.dirty = true
  if units >= a.used then
    a.n, a.used = 0, 0
    return
  end
  a.used = a.used - units
  local last = log_find(a, a.dead, a.n, function(_, sum) return (sum - a.base) % WORD >= a.used end)
  a.last_at = log_entry(a, last)
  a.sum = (a.base + a.used) % WORD
  local whole = ''
  if last > a.dead then
    local from = a.prefix + HEADER
    whole = call('GETRANGE', a.key, from + ENTRY * a.dead, from + ENTRY * last - 1)
  end
  a.n, a.dead = last - a.dead + 1, 0
  log_write(a, whole .. pack('>I7I4', a.last_at + a.shift, a.sum))
end

-- Sliding windows: counters from the newest segment back; the last one is leaving.

local function sliding_estimate(a)
  local inside = 0
  for i = 0, a.segments - 1 do inside = inside + a[i] end
  local leaving = a[a.segments]
  if leaving == 0 then return inside end
  return inside + (scale(leaving, a.span - now % a.span, a.span))
end

-- To `at`, or now.
local function sliding_settle(a, at)
  local current, last = floor((at or now) / a.span), a.segments
  if a.at > current then
    -- Nobody knows how much of its segment had passed: all that is leaving counts again.
    a[last - 1], a[last], a.dirty = a[last - 1] + a[last], 0, true
  end
  local passed = min(max(current - a.at, 0), last + 1)
  if passed > 0 then
    for i = last, passed, -1 do a[i] = a[i - passed] end
    for i = 0, passed - 1 do a[i] = 0 end
  end
  a.at = current
end

-- The newest units are the last to leave, and weigh nothing once less than one of them is inside.
local function sliding_forget_at(a, segment, units)
  return (segment + a.segments) * a.span + (scale(a.span, units - 1, units)) + 1
end

local function sliding_encode(a)
  local count, most = 0, 0
  for i = 0, a.segments do
    if a[i] > 0 then count, most = i + 1, max(most, a[i]) end
  end
  if count == 0 then return '' end
  local width = most < 256 and 1 or most < 65536 and 2 or most < WORD and 4 or 5
  local format = '>BBBI6I7' .. string.rep('I' .. width, count)
  return pack(format, SLIDING, a.segments, width, a.span, a.at, unpack(a, 0, count - 1))
end

local function sliding_decode(a, state)
  local _, segments, width, span, at = read('>BBBI6I7', state)
  a.segments, a.span, a.at = segments, span, at
  local count = (#state - 16) / width
  local counters = { read('>' .. string.rep('I' .. width, count), state, 17) }
  for i = 0, segments do a[i] = i < count and counters[i + 1] or 0 end
end

-- Units that are held beside the account. Reservations belong to a request over several slots,
-- until all of its slots agree: whatever is judged meanwhile must fit beside them, and when they
-- end they are gone. Leases belong to a node that spends them without asking: they count as
-- consumed, and what is not reported when they end is charged as of then. A lease's name begins
-- above 127, a reservation's with how long it lasts at most: two to the power of so many
-- milliseconds. So if the clock goes back, none stays for longer than it was made for.
--
-- They stand in front of what is remembered: a byte that no state begins with, the number of
-- places (1), and in each place a name (8), units (5) and an end (7). So `plain.lua` answers for
-- no key of which units are held, and such a key lives until the last of them has ended.

local HELD, HOLD = 128, 20

-- What an account keeps of another shape: a limit of another algorithm, window or number of
-- segments on the same key. Instances may run different versions of a rule, and whichever asks
-- turns the account into its own shape. What the other one had counted stays in one of the places
-- until it is forgotten, and units are charged to both, so that neither erases what the other one
-- counts. Of each shape this is what `summary` says: its kind after the byte 192, segments (1), span
-- (6), units (5) and moment (7). Of three shapes at once the one that was asked last but one is
-- forgotten.

local OTHER = 192

-- Nodes that decide on their own count report what they have admitted, beyond the capacity as
-- well. What lies beyond it is paid back: nothing is admitted until it is. Then a mark takes one
-- of the places, so that nobody caps the account: four bytes of 255, with which no name begins,
-- and the capacity (4); the units of the window before (5) and its end (7), of a fixed window; of
-- others the end is the moment at which the mark was made.

local MARK = '\255\255\255\255'

local function mark(a, cap, before, at)
  a.mark, a.before, a.marked_at = cap, before, at
end

local function unmark(a)
  if a.mark then a.mark, a.dirty = nil, true end
end

local function is_lease(id) return byte(id) > 127 and byte(id) < OTHER end

local function is_bucket(kind) return kind >= TOKEN end

local function other_forget_at(o)
  if o.kind == LOG then return o.at + o.span end
  if o.kind == SLIDING then return sliding_forget_at(o, floor(o.at / o.span), o.units) end
  return o.at
end

-- Reads what is kept of another shape, dated no later than a clock that went back allows.
local function other_load(a, id, units, at)
  local kind, segments, span = read('>BBI6', id)
  kind = kind - OTHER
  local latest = now
  if is_bucket(kind) then
    latest = now + units * span
  elseif kind == FIXED_CLOCK then
    latest = now - now % span + span
  elseif kind == FIXED_FIRST then
    latest = now + span
  end
  local o = { kind = kind, segments = segments, span = span, units = units, at = min(at, latest) }
  if o.units > 0 and other_forget_at(o) > now then a.other = o end
end

-- Charges the other shape, or gives back if there are fewer than no units.
local function other_take(a, units)
  local o = a.other
  if not o then return end
  if is_bucket(o.kind) then
    -- Of a bucket the units are its capacity, and more than that is not remembered.
    o.at = min(max(o.at + units * o.span, now), now + o.units * o.span)
    return
  end
  o.units = min(o.units + units, USED_MAX)
  if o.units <= 0 then a.other = nil end
  if units > 0 and (o.kind == LOG or o.kind == SLIDING) then o.at = now end
end

local function hold(a, id, units, till)
  a.holds[id], a.holding = { units, till }, a.holding + 1
  if is_lease(id) then a.leased = a.leased + units else a.held = a.held + units end
end

local function let_go(a, id)
  local one = a.holds[id]
  if not one then return end
  if is_lease(id) then a.leased = a.leased - one[1] else a.held = a.held - one[1] end
  a.holds[id], a.holding, a.dirty = nil, a.holding - 1, true
end

-- Reads what is held; leases that have ended are charged once the account is known.
local function holds_load(a, state)
  for from = 3, 2 + HOLD * byte(state, 2), HOLD do
    local id, units, till = read('>c8I5I7', state, from)
    local first = byte(id)
    local latest = now + (is_lease(id) and LEASE_LASTS or 1000 * 2 ^ first)
    if first == 255 then
      mark(a, read('>I4', id, 5), units, till)
    elseif first > OTHER then
      other_load(a, id, units, till)
    elseif till > latest then
      hold(a, id, units, latest)
      a.dirty = true
    elseif till > now then
      hold(a, id, units, till)
    else
      a.dirty = true
      if is_lease(id) then
        a.ended = a.ended or {}
        a.ended[#a.ended + 1] = { units, till }
      end
    end
  end
end

local function ends_first(one, other) return one[2] < other[2] end

-- The end of the window that a lease ends in.
local function window_end(a, till) return till - 1 - (till - 1) % a.span + a.span end

-- Until when leases matter that nobody reports: until what each is charged with as of its end has
-- recovered.
local function leases_forgotten_at(a)
  local leases, last = {}, 0
  for id, one in pairs(a.holds) do
    if is_lease(id) then
      leases[#leases + 1], last = one, max(last, one[2])
    end
  end
  if a.kind == FIXED_CLOCK then return window_end(a, last) end
  if a.kind == FIXED_FIRST then return last end
  if a.kind == LOG then return last + a.span end
  if a.kind == SLIDING then
    local newest = floor(last / a.span)
    local units = newest == a.at and a[0] or 0
    for _, one in ipairs(leases) do
      if floor(one[2] / a.span) == newest then units = units + one[1] end
    end
    return sliding_forget_at(a, newest, units)
  end
  if #leases > 1 then table.sort(leases, ends_first) end
  local at = a.at
  for _, one in ipairs(leases) do at = max(at, one[2]) + one[1] * a.span end
  return at
end

-- How many places are needed.
local function places_of(a)
  return a.holding + (a.mark and 1 or 0) + (a.other and 1 or 0)
end

-- What is held, in so many places, and until when it matters.
local function holds_encode(a, places)
  if places == 0 then return '', 0 end
  local parts, last = { string.char(HELD, places) }, 0
  if a.mark then
    parts[#parts + 1] = MARK .. pack('>I4I5I7', a.mark, a.before, a.marked_at)
    if a.before > 0 then last = a.marked_at + LATE end
  end
  local o = a.other
  if o then
    parts[#parts + 1] = pack('>BBI6I5I7', OTHER + o.kind, o.segments, o.span, o.units, o.at)
    last = max(last, other_forget_at(o))
  end
  for id, one in pairs(a.holds) do
    parts[#parts + 1] = pack('>c8I5I7', id, one[1], one[2])
    last = max(last, one[2])
  end
  if a.leased > 0 then last = max(last, leases_forgotten_at(a)) end
  parts[#parts + 1] = string.rep('\0', HOLD * (places - places_of(a)))
  return table.concat(parts), last
end

-- The entries of a log stay where they are as long as what is held has its places.
local function log_save(a)
  local places, needed, live = (a.prefix > 0 and a.prefix - 2 or 0) / HOLD, places_of(a)
  local moves = a.n == 0 or a.dead >= 32 and a.dead * 2 >= a.n
  if moves and needed == 0 then
    places = 0
  elseif needed > places then
    places, moves = min(max(4, 2 * needed), 255), true
  end
  if moves then
    live = a.n > 0 and call('GETRANGE', a.key, a.prefix + HEADER + ENTRY * a.dead, -1) or ''
    a.n, a.dead = max(a.n - a.dead, 0), 0
  end
  local front, last = holds_encode(a, places)
  a.prefix = #front
  if a.n > 0 then
    front, last = front .. log_header(a), max(last, a.last_at + a.span)
  end
  if moves and front == '' then
    if a.stored then call('DEL', a.key) end
  elseif moves then
    call('SET', a.key, front .. live, 'PXAT', milliseconds(last))
  else
    call('SETRANGE', a.key, 0, front)
    call('PEXPIREAT', a.key, milliseconds(last))
  end
end

-- Any account.

-- A key never seen, under the limit of `line`.
local function clear(a, line)
  local kind = line.kind
  a.kind, a.span, a.cap, a.segments, a.used = kind, line.span, line.cap, line.segments, 0
  if is_bucket(kind) then
    a.at = now
  elseif kind == FIXED_CLOCK then
    a.at = now - now % line.span + line.span
  elseif kind == FIXED_FIRST then
    a.at = now + line.span
  elseif kind == SLIDING then
    a.at = floor(now / line.span)
    for i = 0, line.segments do a[i] = 0 end
  else
    a.n, a.shift, a.dead, a.base, a.sum, a.last_at = 0, 0, 0, 0, 0, 0
  end
end

-- Reads what is remembered, under a limit of `line`'s kind or another. The shorter forms are those
-- of earlier versions, which left out what they took to be the same for all who ask.
local function decode(a, state, line)
  local kind, short = byte(state), #state < 18
  a.kind, a.raw = kind, state
  local _
  if kind == FIXED_CLOCK or kind == FIXED_FIRST then
    if short then state = state .. pack('>I6', line.span) end
    _, a.at, a.used, a.span = read('>BI7I4I6', state)
  elseif kind == SLIDING then
    sliding_decode(a, state)
  elseif kind == LOG then
    _, a.span, a.shift, a.dead, a.base = read('>BI6I7I4I4', state)
    log_open(a)
  elseif short then
    _, a.at, a.span = read(#state == 12 and '>BI7I4' or '>BI7I6', state)
    a.cap = line.cap
  else
    _, a.at, a.span, a.cap = read('>BI7I6I4', state)
  end
  if kind == LOG or short and kind ~= SLIDING then a.raw = nil end
end

local function encode(a)
  local kind = a.kind
  if is_bucket(kind) then
    if a.at <= now then return '' end
    return pack('>BI7I6I4', kind, a.at, a.span, a.cap)
  elseif kind == SLIDING then
    return sliding_encode(a)
  elseif a.used == 0 and (kind == FIXED_CLOCK or a.leased == 0) then
    -- A window that its first request began lasts as long as units of it are leased.
    return ''
  end
  return pack('>BI7I4I6', kind, a.at, a.used, a.span)
end

-- The moment from which on this equals a key never seen: what is used beside leases is.
local function forget_at(a)
  if is_bucket(a.kind) or not a.mark and a.kind ~= SLIDING then return a.at end
  if a.kind ~= SLIDING then
    -- What is beyond the capacity takes windows of its own, leases included.
    local over = max(a.used + a.leased - a.mark, 0)
    return a.at + ceil(over / max(a.mark, 1)) * a.span + LATE
  end
  local newest_used = 0
  while a[newest_used] == 0 do newest_used = newest_used + 1 end
  return sliding_forget_at(a, a.at - newest_used, a[newest_used])
end

-- Units consumed that still count, under the account's own limit.
local function used(a)
  if is_bucket(a.kind) then return a.at > now and ceil((a.at - now) / a.span) or 0 end
  if a.kind == SLIDING then
    sliding_settle(a)
    return sliding_estimate(a)
  end
  if a.kind == LOG then
    log_settle(a)
    return a.used
  end
  return a.at > now and a.used or 0
end

local function remaining(a, line)
  if a.kind == SLIDING then return max(line.cap - sliding_estimate(a) - a.leased, 0) end
  if is_bucket(a.kind) then
    return max(line.cap - used(a) - a.leased, 0)
  end
  return max(line.cap - a.used - a.leased, 0)
end

-- What is told of an account: leases as if they were charged.
local function state_of(a)
  if a.leased == 0 then return a.raw or encode(a) end
  local at, used, newest = a.at, a.used, a[0]
  if is_bucket(a.kind) then
    a.at = at + a.leased * a.span
  elseif a.kind == SLIDING then
    a[0] = newest + a.leased
  else
    a.used = used + a.leased
  end
  local state = encode(a)
  a.at, a.used, a[0] = at, used, newest
  return state
end

-- Charges what a lease held, at the moment at which it ended.
local function charge_ended(a, units, till)
  a.raw = nil
  other_take(a, units)
  if is_bucket(a.kind) then
    a.at = max(a.at, till) + units * a.span
  elseif a.kind == SLIDING then
    sliding_settle(a, max(till, a.at * a.span))
    a[0] = a[0] + units
  elseif a.kind == LOG then
    log_settle(a)
    if till + a.span > now then log_take(a, units, a.n > 0 and max(till, a.last_at) or till) end
  elseif a.kind == FIXED_FIRST then
    -- At the end of its window at the latest, and that one is over then.
    a.used = a.used + units
  else
    -- If that window is over, only what was beyond the capacity still counts.
    local ends = window_end(a, till)
    if ends > now and a.at ~= ends then a.at, a.used = ends, 0 end
    if a.at == ends then a.used = a.used + units end
  end
end

-- Sets the price and the capacity of a bucket's debt to those of `line`: the same units, a part of
-- one rounded up. What would be too long to be written down stays as it is.
local function set_terms(a, line)
  local debt, span = max(a.at - now, 0), line.span
  if a.span ~= span then
    local whole = floor(debt / a.span) * span
    if span == 0 or whole > DEBT_MAX then return end
    local part, rest = scale(span, debt % a.span, a.span)
    a.at, a.span = now + whole + part + (rest > 0 and 1 or 0), span
  end
  a.cap, a.dirty, a.raw = line.cap, true, nil
end

local function take(a, line, units)
  if units == 0 then return end
  a.dirty, a.is_fresh, a.raw = true, false, nil
  other_take(a, units)
  if is_bucket(a.kind) then
    set_terms(a, line)
    a.at = a.at + units * a.span
    -- Units that nobody judged under this limit may be more than it allows.
    if not a.mark and a.at - now > a.cap * a.span then a.cap = min(used(a), USED_MAX) end
  elseif a.kind == SLIDING then
    a[0] = a[0] + units
  elseif a.kind == LOG then
    log_take(a, units, now)
  else
    a.used = a.used + units
  end
end

-- What is kept of an account that turns into another shape; nothing if there is nothing. A log and
-- a sliding window keep all units at the moment of the newest.
local function summary(a, units)
  if units == 0 then return nil end
  local at = a.at
  if is_bucket(a.kind) then
    units = a.cap
  elseif a.kind == LOG then
    at = a.last_at
  elseif a.kind == SLIDING then
    local newest = 0
    while a[newest] == 0 do newest = newest + 1 end
    at = (a.at - newest) * a.span
  end
  return { kind = a.kind, segments = a.segments, span = a.span, units = units, at = at }
end

-- The account as `summary` has kept it.
local function restore(a, line, o)
  clear(a, line)
  if is_bucket(a.kind) then
    a.at, a.span, a.cap = o.at, o.span, o.units
  elseif a.kind == LOG then
    log_take(a, o.units, o.at)
  elseif a.kind == SLIDING then
    a.at, a[0] = floor(o.at / a.span), o.units
  else
    a.at, a.used = o.at, o.units
  end
end

-- Brings an account to the shape that `line` has. The units stay what they are: only what is
-- charged later, or a limit that is at least as large in every way, sets another price to those of
-- a bucket. An account of another shape becomes what was known of this one, or else all that was
-- used counts as used now, up to the new capacity.
local function convert(a, line)
  local kind, o = line.kind, a.other
  if a.kind == kind and is_bucket(kind) and not a.is_fresh then
    local grows = line.span < a.span and line.cap >= a.cap
    if grows and line.span > 0 and not a.mark then set_terms(a, line) end
    return
  end
  local is_known = o and o.kind == kind
    and (is_bucket(kind) or o.span == line.span and o.segments == line.segments)
  local is_same = a.kind == kind and a.span == line.span and a.segments == line.segments
  if is_same and not (is_known and a.is_fresh) then return end
  unmark(a)
  local units = used(a)
  local kept = summary(a, units)
  a.other = nil
  if is_known then
    restore(a, line, o)
  else
    clear(a, line)
    take(a, line, min(units, line.cap))
  end
  a.other, a.raw = kept or not is_known and o or nil, nil
  a.dirty, a.is_fresh = a.dirty or units > 0 or is_known, a.is_fresh and not is_known
end

-- Begins the window that now lies in, with what was used beyond the capacity of those before, each
-- of which pays its capacity back; remembers what was used in the last one.
local function roll(a, line, fresh_end)
  local cap, span = a.mark or line.cap, line.span
  local passed = floor((now - a.at) / span)
  if passed == 0 then
    a.before, a.marked_at = a.used, a.at
  else
    a.before, a.marked_at = max(a.used - passed * cap, 0), a.at + passed * span
  end
  local over = a.mark and max(a.before - cap, 0) or 0
  a.at = over > 0 and a.marked_at + span or fresh_end
  a.used, a.raw = over, nil
end

local function settle(a, line)
  local kind, cap, span = a.kind, line.cap, line.span
  if is_bucket(kind) then
    -- By its own terms: a smaller limit that looks must not lower what a larger one has counted.
    local latest = now + (a.mark or a.cap) * a.span
    if a.mark then
      if a.marked_at > now then a.at, a.dirty, a.raw = a.at - (a.marked_at - now), true, nil end
      a.marked_at = now
      if a.at <= latest then unmark(a) end
    elseif a.at > latest then
      a.at, a.dirty, a.raw = latest, true, nil
    end
    a.full_at = a.at
    if a.at <= now then a.at, a.span, a.cap = now, span, cap end
  elseif kind == SLIDING then
    sliding_settle(a)
    if a.mark and sliding_estimate(a) <= a.mark then unmark(a) end
    if a.dirty then a.raw = nil end
  elseif kind == LOG then
    log_settle(a)
  else
    local fresh_end = kind == FIXED_CLOCK and now - now % span + span or now + span
    if a.at <= now and a.used > 0 then
      roll(a, line, fresh_end)
    elseif a.at <= now or a.used == 0 and a.leased == 0 then
      a.at, a.used = fresh_end, 0
    elseif a.at > fresh_end or kind == FIXED_CLOCK and a.at < fresh_end then
      a.at, a.dirty, a.raw = fresh_end, true, nil
    end
  end
end

local function fits(a, line, units)
  if units > line.cap then return false end
  units = units + a.leased
  if is_bucket(a.kind) then return a.at - now <= (line.cap - units) * a.span end
  if a.kind == SLIDING then return sliding_estimate(a) + units <= line.cap end
  return a.used + units <= line.cap
end

local function penalise(a, line, units)
  if is_bucket(a.kind) then
    if a.at - now >= (line.cap - a.leased) * a.span then return end
    other_take(a, units)
    set_terms(a, line)
    a.at = max(a.at, now + min(a.at - now + units * a.span, (line.cap - a.leased) * a.span))
  else
    take(a, line, min(units, remaining(a, line)))
  end
end

local function refund(a, line, units)
  a.dirty, a.raw = true, nil
  other_take(a, -units)
  if is_bucket(a.kind) then
    a.at = max(a.at - min(units, WORD - 1) * a.span, now)
  elseif a.kind == SLIDING then
    for i = 0, a.segments do
      local back = min(units, a[i])
      a[i], units = a[i] - back, units - back
    end
  elseif a.kind == LOG then
    log_refund(a, units)
  else
    a.used = max(a.used - units, 0)
    -- A window that its first request got back entirely has not begun.
    if a.used == 0 and a.leased == 0 then clear(a, line) end
  end
end

local function save(a)
  if a.kind == LOG then return log_save(a) end
  local state = encode(a)
  if a.mark and state == '' and a.before == 0 then a.mark = nil end
  local front, last = holds_encode(a, places_of(a))
  if state ~= '' then last = max(last, forget_at(a)) end
  state = front .. state
  if state ~= '' then
    call('SET', a.key, state, 'PXAT', milliseconds(last))
  elseif a.stored then
    call('DEL', a.key)
  end
end

-- What is stored: of a log only what stands in front of its entries.
local function stored(key, kind)
  if kind ~= LOG then return call('GET', key) end
  local state = call('GETRANGE', key, 0, HEADER - 1)
  local front = byte(state) == HELD and 2 + HOLD * byte(state, 2) or 0
  if front > 0 then state = call('GETRANGE', key, 0, front + HEADER - 1) end
  local first = byte(state, front + 1)
  if first and first ~= LOG then state = call('GET', key) end
  return state ~= '' and state
end

-- The account of a line, settled, under the limit that the rule has now.
local accounts = {}
local function account(key, line)
  local a = accounts[key]
  if not a then
    -- All at once: a table that grows is made anew, again and again.
    a = {
      key = key, segments = 0, prefix = 0, holds = {}, holding = 0, held = 0, leased = 0, kind = 0,
      span = 0, cap = 0, at = 0, used = 0, full_at = 0, raw = false, stored = false, other = false,
      ended = false, dirty = false, is_fresh = false, mark = false, before = false, marked_at = 0,
    }
    local state = stored(key, line.kind)
    if state then
      a.stored = true
      if byte(state) == HELD then
        holds_load(a, state)
        a.prefix = 2 + HOLD * byte(state, 2)
        state = string.sub(state, a.prefix + 1)
      end
    end
    if state and state ~= '' then
      decode(a, state, line)
    else
      clear(a, line)
      -- Leases alone do not say under which limit they were granted.
      a.is_fresh, a.dirty = true, a.dirty or a.leased > 0
    end
    if a.kind ~= LOG then a.prefix = 0 end
    accounts[key] = a
  end
  convert(a, line)
  if a.ended then
    -- As of when they ended, even if there is nothing else: not as of now.
    if a.is_fresh and (is_bucket(a.kind) or a.kind == SLIDING) then a.at, a.is_fresh = 0, false end
    table.sort(a.ended, ends_first)
    for _, one in ipairs(a.ended) do charge_ended(a, one[1], one[2]) end
    a.ended = nil
  end
  settle(a, line)
  return a
end

-- What is told of a log in place of its entries: units, the newest, and when enough have left for
-- the request to fit, before and after it is charged for its refusal.
local function log_told(a, line)
  local used, newest = a.used + a.leased, a.leased > 0 and now or a.last_at
  if used == 0 and line.penalty == 0 then return '' end
  local before, after, lacking = 0, 0, used + line.units - line.cap
  local function left(need) return need <= a.used and log_left(a, need) or now + a.span end
  if line.role ~= UNJUDGED and line.units <= line.cap then
    if lacking > 0 then before = left(lacking) end
    -- Even if this line admits: another one may refuse, and this one be charged for it.
    lacking = lacking + min(line.penalty, max(line.cap - used, 0))
    if lacking > 0 then after = left(lacking) end
  end
  return pack('>BI4I7I7I7', LOG, used, newest, before, after)
end

local questions, position, place = ARGV[1], 1, 0
local answers = { pack('>I7', now) }

local function next_line()
  local line = {}
  line.kind, line.segments, line.role, line.cap, line.span, line.units, line.take, line.penalty,
    line.refund, position = read('>BBBI4I6I5I5I5I5', questions, position)
  place = place + 1
  line.account = account(KEYS[place], line)
  return line
end

-- Charges units of the window that ends at `ends`.
local function report_window(a, line, units, ends)
  if ends > now then
    if a.used == 0 and a.leased == 0 and a.kind == FIXED_FIRST then a.at = min(ends, a.at) end
    a.used = min(a.used + units, USED_MAX)
    return
  end
  -- Of a window that is over only what was beyond its capacity counts.
  if not a.before or a.before == 0 then a.before, a.marked_at = 0, ends end
  if ends <= a.marked_at and ends > a.marked_at - line.span then
    local over = max(a.before - line.cap, 0)
    a.before = min(a.before + units, USED_MAX)
    a.used = min(a.used + max(a.before - line.cap, 0) - over, USED_MAX)
  end
end

-- Charges what a node has admitted on its own count, whether it fits or not, as of when it did;
-- then tells what there is now.
local function next_report()
  local line, base, parts = {}
  line.kind, line.segments, line.cap, line.span, base, parts, position =
    read('>BBI4I6I7B', questions, position)
  place = place + 1
  local a, cap, span = account(KEYS[place], line), line.cap, line.span
  for _ = 1, parts do
    local at, units
    at, units, position = read('>I7I5', questions, position)
    a.dirty, a.raw = true, nil
    other_take(a, units)
    if is_bucket(a.kind) then
      set_terms(a, line)
      if a.full_at > now then a.full_at = a.at end
      span = a.span
      local full_at, longest = a.full_at, floor(DEBT_MAX / max(span, 1))
      -- Forgotten as full again, and there is more than that to know: when it was.
      if a.is_fresh and full_at <= now then full_at = min(base, now) end
      units = min(units, longest)
      at = min(at, now + min(max(units, cap), longest) * span)
      a.at = min(max(full_at + units * span, at, now), now + DEBT_MAX)
      a.full_at = a.at
    elseif a.kind == SLIDING then
      local age = max(a.at - at, 0)
      if age <= a.segments then a[age] = min(a[age] + units, USED_MAX) end
    else
      report_window(a, line, units, at)
    end
  end
  if parts > 0 then
    if a.kind == FIXED_CLOCK or a.kind == FIXED_FIRST then
      if a.used > 0 or a.before then mark(a, cap, a.before or 0, a.marked_at or 0) end
    elseif is_bucket(a.kind) and a.at > now + cap * span
      or a.kind == SLIDING and sliding_estimate(a) > cap then
      mark(a, cap, 0, now)
    end
  end
  return a, cap
end

-- Judges the lines of a request: whether it is refused for sure, and whether a reservation of
-- another request is all that is in the way.
local function judge(lines, states)
  local refused, blocked, quotas, quotas_over = false, false, 0, 0
  for i, line in ipairs(lines) do
    local a, role, units = line.account, line.role, line.units
    if a.kind ~= LOG then states[i] = state_of(a) end
    if line.refund > 0 then refund(a, line, line.refund) end
    line.refused = role ~= UNJUDGED and not fits(a, line, units)
    if role ~= UNJUDGED and a.held > 0 and not line.refused then
      blocked = blocked or not fits(a, line, units + a.held)
    end
    if a.kind == LOG then states[i] = log_told(a, line) end
    if role == QUOTA then quotas = quotas + 1 end
    if line.refused and role == ENFORCE then refused = true end
    if line.refused and role == QUOTA then quotas_over = quotas_over + 1 end
  end
  return refused, blocked, quotas > 0 and quotas == quotas_over
end

local function charge(lines, refused)
  for _, line in ipairs(lines) do
    if not refused then
      if not line.refused then take(line.account, line, line.take) end
    elseif line.penalty > 0 then
      penalise(line.account, line, line.penalty)
    end
  end
end

local function answer(status, states)
  answers[#answers + 1] = status
  for _, state in ipairs(states) do
    answers[#answers + 1] = pack('>I2', #state)
    answers[#answers + 1] = state
  end
end

-- All of a request, which has its keys in one slot.
local function decide(lines)
  local states = {}
  local refused, blocked, all_over = judge(lines, states)
  refused = refused or all_over
  if blocked and not refused then return answer(BLOCKED, states) end
  charge(lines, refused)
  answer(refused and REFUSED or ADMITTED, states)
end

-- How many requests the units of a line fit for, beside what others hold: at most as many as ask.
local function count_fitting(a, line, id)
  if line.refused then return 0 end
  if line.role == UNJUDGED then return line.times end
  if a.holding >= HOLDS_MAX and not a.holds[id] then return 0 end
  if not fits(a, line, line.units + a.held) then return 0 end
  if line.take == 0 then return line.times end
  return min(line.times, 1 + floor((remaining(a, line) - a.held - line.units) / line.take))
end

-- The part of a round of requests that has its keys here: holds units for as many requests as they
-- fit for, line by line, and says for how many. Whoever sees all parts judges the requests.
local function reserve(lines, id, till)
  local states, any = {}, false
  -- What an earlier try of this round holds.
  for _, line in ipairs(lines) do let_go(line.account, id) end
  local refused = judge(lines, states)
  for i, line in ipairs(lines) do
    local a = line.account
    local count = count_fitting(a, line, id)
    if count > 0 and line.take > 0 then
      -- Lines of other costs may be on the same key.
      local before = a.holds[id] and a.holds[id][1] or 0
      let_go(a, id)
      hold(a, id, before + count * line.take, till)
      a.dirty = true
    end
    any = any or count > 0
    states[i] = pack('>I4', count) .. states[i]
  end
  answer(refused and REFUSED or any and ADMITTED or BLOCKED, states)
end

-- Charges what was reserved for the requests that are allowed, all of it or, if some has expired,
-- nothing; lets go of the rest, and charges the lines that ask for it for the denied requests.
local function confirm(lines, id)
  for _, line in ipairs(lines) do
    if line.times > 0 and line.take > 0 and not line.account.holds[id] then
      return answer(REFUSED, {})
    end
  end
  for _, line in ipairs(lines) do let_go(line.account, id) end
  for _, line in ipairs(lines) do take(line.account, line, line.take * line.times) end
  for _, line in ipairs(lines) do
    local penalty = min(line.penalty * line.denied, UNITS_MAX)
    if penalty > 0 then penalise(line.account, line, penalty) end
  end
  answer(ADMITTED, {})
end

-- Charges what a node has spent of its lease, and takes the rest back; also all of what was granted
-- under the name of the next lease, by a call whose reply was lost. Then decides the request,
-- and leases units beside it: as many as are wanted, but only up to a quarter of what is left, so
-- that the other nodes find three times as much, and none if that is less than `least`.
local function lease(line, id, till, spent, want, least, fresh_id)
  local a, mine = line.account, line.account.holds[id]
  if mine then
    let_go(a, id)
    take(a, line, min(spent, mine[1]))
  end
  let_go(a, fresh_id)
  local status, states, granted = ADMITTED, {}, 0
  local refused, blocked, all_over = judge({ line }, states)
  if refused or all_over then
    status = REFUSED
  elseif blocked then
    status = BLOCKED
  end
  if status ~= BLOCKED then charge({ line }, status == REFUSED) end
  if a.kind == FIXED_CLOCK or a.kind == FIXED_FIRST then till = min(till, a.at) end
  if status == ADMITTED and not line.refused and line.role ~= UNJUDGED and a.holding < LEASES_MAX then
    granted = min(want, floor((remaining(a, line) - a.held) / 4))
    if granted < least then granted = 0 end
  end
  if granted > 0 then
    hold(a, fresh_id, granted, till)
    a.dirty = true
  end
  states[2] = pack('>I5I5', granted, till - now)
  answer(status, states)
end

local function report(count)
  local states = {}
  for i = 1, count do
    local a, cap = next_report()
    local used, is_fixed = a.used, a.kind == FIXED_CLOCK or a.kind == FIXED_FIRST
    if is_fixed and not a.mark and used + a.leased > cap then
      -- Counted by a larger limit, and not owed to the windows that follow.
      a.used, a.raw = max(cap - a.leased, 0), nil
    end
    states[i], a.used = state_of(a), used
  end
  answer(ADMITTED, states)
end

while position <= #questions do
  local step, count, id, lasts, spent, want, least, fresh_id
  step, count, position = read('>BB', questions, position)
  if step > 0 and step < REPORT then id, lasts, position = read('>c8I5', questions, position) end
  if step == LEASE then
    spent, want, least, fresh_id, position = read('>I5I5I5c8', questions, position)
  end
  local lines = {}
  for i = 1, step == REPORT and 0 or count do
    lines[i] = next_line()
    if step == RESERVE or step == CONFIRM then
      lines[i].times, lines[i].denied, position = read('>I4I4', questions, position)
    end
  end
  if step == REPORT then
    report(count)
  elseif step == LEASE then
    lease(lines[1], id, now + lasts, spent, want, least, fresh_id)
  elseif step == RESERVE then
    reserve(lines, id, now + lasts)
  elseif step == CONFIRM then
    confirm(lines, id)
  else
    decide(lines)
  end
end
for _, a in pairs(accounts) do
  if a.dirty then save(a) end
end
return table.concat(answers)
