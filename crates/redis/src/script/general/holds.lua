
-- Holds: units that are held beside the account. Reservations belong to requests over several
-- slots, until all of their slots agree: whatever is judged meanwhile must fit in addition to them,
-- and when they expire they are dropped. Leases belong to an instance that spends them without a
-- call: they count as consumed, and what is not returned when they expire is charged as of then.
-- The first byte of a lease's name is above 127; that of a reservation's is its longest lifetime,
-- as a power of two in milliseconds. So if the clock is set back, none lasts longer than its
-- lifetime.
--
-- They precede the state: a byte that no state begins with, the number of entries (1), and for each
-- entry a name (8), units (5) and an end (7). `plain.lua` handles leases, but no other holds. A key
-- with holds lives until the last of them has expired.

local HELD, HOLD = 128, 20

-- Instances with local counts report the units that they have allowed, also beyond the capacity.
-- These are paid back: nothing is allowed until they are. Then a mark takes one of the entries, so
-- that the account is not capped: four bytes of 255, with which no name begins, and the capacity
-- (4), for a fixed window that of the largest limit that has charged it; for a fixed window, the
-- units of the window before (5) and its end (7); for other shapes the end is the time at which the
-- mark was set.

local MARK = '\255\255\255\255'

local function mark(a, cap, before, at)
  a.mark, a.before, a.marked_at = cap, before, at
end

local function is_lease(id) return byte(id) > 127 and byte(id) < OTHER end

local function hold(a, id, units, till)
  a.holds[id], a.holding = { units, till }, a.holding + 1
  if is_lease(id) then a.leased = a.leased + units else a.held = a.held + units end
end

local function release(a, id)
  local one = a.holds[id]
  if not one then return end
  if is_lease(id) then a.leased = a.leased - one[1] else a.held = a.held - one[1] end
  a.holds[id], a.holding, a.changed = nil, a.holding - 1, true
end

-- Takes units off reservations that are charged to other requests.
local function shrink_holds(a, units)
  for id, one in pairs(a.holds) do
    if not is_lease(id) then
      local cut = min(units, one[1])
      one[1], a.held, units = one[1] - cut, a.held - cut, units - cut
    end
  end
end

-- Decodes the holds; expired leases are charged once the account is known.
local function load_holds(a, state)
  local is_after_empty = false
  for from = 3, 2 + HOLD * byte(state, 2), HOLD do
    local id, units, till = read('>c8I5I7', state, from)
    local first = byte(id)
    local latest = now + (is_lease(id) and LEASE_LASTS or 1000 * 2 ^ first)
    if first == 255 then
      mark(a, read('>I4', id, 5), units, till)
    elseif first > OTHER then
      load_other(a, id, units, till, is_after_empty)
    elseif till > latest then
      hold(a, id, units, latest)
      a.redated = true
    elseif till > now then
      hold(a, id, units, till)
    elseif is_lease(id) then
      a.ended = a.ended or {}
      a.ended[#a.ended + 1] = { units, till, id }
    end
    is_after_empty = first + till == 0
  end
end

local function ends_first(one, other) return one[2] < other[2] end

-- Until when leases that are not returned matter: until the units that are charged when they expire
-- have expired.
local function leases_end_at(a)
  local leases, last = {}, 0
  for id, one in pairs(a.holds) do
    if is_lease(id) then
      leases[#leases + 1], last = one, max(last, one[2])
    end
  end
  return ALGORITHMS[a.kind].leases_end_at(a, leases, last)
end

-- The number of entries needed.
local function count_places(a)
  return a.holding + (a.mark and 1 or 0) + count_others(a)
end

-- The encoded holds, in this many entries, and until when they matter.
local function encode_holds(a, places)
  if places == 0 then return '', 0 end
  local parts, last = { string.char(HELD, places) }, 0
  if a.mark then
    parts[#parts + 1] = MARK .. pack('>I4I5I7', a.mark, a.before, a.marked_at)
    if a.before > 0 then last = a.marked_at + LATE end
  end
  if units_of_hidden(a) > 0 then
    parts[#parts + 1], last = encode_hidden(a), max(last, kept_until(a.hidden))
  end
  for _, kept in ipairs(a.others or {}) do
    parts[#parts + 1] = encode_other(kept)
    if kept.units > 0 then last = max(last, kept_until(kept)) end
  end
  for id, one in pairs(a.holds) do
    parts[#parts + 1] = pack('>c8I5I7', id, one[1], one[2])
    last = max(last, one[2])
  end
  if a.leased > 0 then last = max(last, leases_end_at(a)) end
  parts[#parts + 1] = string.rep(EMPTY, places - count_places(a))
  return table.concat(parts), last
end
