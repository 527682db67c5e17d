
-- The account of a key: its state, its holds, and the state of another shape.

-- Decodes a state of `line`'s kind or another. The shorter forms are those of earlier versions,
-- which left out the values that they took from the limit.
local function decode(a, state, line)
  a.kind, a.raw = byte(state), state
  ALGORITHMS[a.kind].decode(a, state, line)
end

-- The state for the reply: leases as if they were charged, and the mark of a window with debt.
local function encode_for_reply(a)
  local state = a.leased == 0 and a.raw or ALGORITHMS[a.kind].encode(a, a.leased)
  if a.mark and is_fixed(a.kind) and state ~= '' then state = state .. pack('>I4', a.mark) end
  return state
end

local function settle(a, line) ALGORITHMS[a.kind].settle(a, line) end

local function remaining(a, line)
  return max(ALGORITHMS[a.kind].remaining(a, line) - a.leased, 0)
end

local function fits(a, line, units)
  return units <= line.cap and ALGORITHMS[a.kind].fits(a, line, units + a.leased)
end

local function take(a, line, units)
  if units == 0 then return end
  a.dirty, a.is_fresh, a.raw = true, false, nil
  charge_other(a, units)
  ALGORITHMS[a.kind].take(a, line, units)
end

-- Charges up to the capacity, less the units that the request leaves for others with priority,
-- whether units are reserved or not: the reservations may be released. The result is as if the
-- reservations had been charged first: they shrink by the units that would then not have been
-- charged here. If several shrink, one that is released takes along units that another one would
-- have charged.
local function charge_denied(a, line, units)
  local charge = ALGORITHMS[a.kind].charge_denied
  if charge then return charge(a, line, units) end
  local free = max(remaining(a, line) - line.kept, 0)
  local beside = max(free - a.held, 0)
  shrink_holds(a, min(units, free) - min(units, beside))
  take(a, line, min(units, free))
end

local function refund(a, line, units)
  a.dirty, a.raw = true, nil
  charge_other(a, -units)
  ALGORITHMS[a.kind].refund(a, line, units)
end

-- Charges expired leases, as of when they expired.
local function take_ended(a)
  local algorithm = ALGORITHMS[a.kind]
  -- Even if there is no other state: as of then, not as of now.
  if a.is_fresh and (is_bucket(a.kind) or a.kind == SLIDING) then a.at, a.is_fresh = 0, false end
  table.sort(a.ended, ends_first)
  for _, lease in ipairs(a.ended) do
    local units, ended = lease[1], lease[2]
    a.raw = nil
    charge_other(a, units)
    algorithm.take_ended(a, units, ended)
  end
  a.ended = nil
end

-- The summary of an account that is migrated to another shape; nil if it has no units.
local function summarize(a, units)
  if units == 0 then return nil end
  local kept, at = ALGORITHMS[a.kind].summarize(a, units)
  return { kind = a.kind, segments = a.segments, span = a.span, units = kept, at = at }
end

-- Charges, as used now, the units that another shape has counted and a smaller bucket had no room
-- for.
local function take_hidden(a, line, units)
  local hidden = min(units, line.cap) - ALGORITHMS[a.kind].used(a)
  if hidden <= 0 then return end
  ALGORITHMS[a.kind].take(a, line, hidden)
  a.dirty, a.raw = true, nil
end

-- Migrates an account to the shape of `line`. The number of units stays the same: only later
-- charges, or a limit that is at least as large in every way, change the price of a bucket's units.
-- An account of another shape is restored from what was kept of this shape; otherwise all used
-- units count as used now, up to the new capacity. A smaller bucket counts no more than its own
-- capacity, so units that the other shape has counted beyond that count as used now as well.
local function migrate(a, line)
  local kind, other = line.kind, a.other
  if a.kind == kind and is_bucket(kind) and not a.is_fresh then
    local grows = line.span < a.span and line.cap >= a.cap
    local is_larger = line.cap > a.cap
    if grows and line.span > 0 and not a.mark then ALGORITHMS[kind].set_terms(a, line) end
    if other and is_larger then take_hidden(a, line, units_of_other(other)) end
    return
  end
  local is_known = other and other.kind == kind
    and (is_bucket(kind) or other.span == line.span and other.segments == line.segments)
  local is_same = a.kind == kind and a.span == line.span and a.segments == line.segments
  if is_same and not (is_known and a.is_fresh) then return end
  unmark(a)
  local units = ALGORITHMS[a.kind].used(a)
  local kept = summarize(a, units)
  a.other = nil
  begin(a, line)
  if is_known then
    ALGORITHMS[kind].restore(a, other)
    if is_bucket(kind) and other.units < line.cap then take_hidden(a, line, units) end
  else
    take(a, line, min(units, line.cap))
  end
  a.other, a.raw = kept or not is_known and other or nil, nil
  a.dirty, a.is_fresh = a.dirty or units > 0 or is_known, a.is_fresh and not is_known
end

-- The stored state; for a log only the part in front of its entries.
local function read_stored(key, kind)
  if kind ~= LOG then return call('GET', key) end
  local state = call('GETRANGE', key, 0, LOG_HEADER - 1)
  local front = byte(state) == HELD and 2 + HOLD * byte(state, 2) or 0
  if front > 0 then state = call('GETRANGE', key, 0, front + LOG_HEADER - 1) end
  local first = byte(state, front + 1)
  if first and first ~= LOG then state = call('GET', key) end
  return state ~= '' and state
end

local function open_account(key, line)
  -- All fields at once: a table that grows is reallocated.
  local a = {
    key = key, segments = 0, prefix = 0, holds = {}, holding = 0, held = 0, leased = 0, kind = 0,
    span = 0, cap = 0, at = 0, used = 0, full_at = 0, stored_at = 0, raw = false, stored = false,
    other = false, ended = false, dirty = false, is_fresh = false, mark = false, before = false,
    marked_at = 0,
  }
  local state = read_stored(key, line.kind)
  if state then
    a.stored = true
    if byte(state) == HELD then
      load_holds(a, state)
      a.prefix = 2 + HOLD * byte(state, 2)
      state = string.sub(state, a.prefix + 1)
    end
  end
  if state and state ~= '' then
    decode(a, state, line)
  else
    begin(a, line)
    -- Leases alone do not say under which limit they were granted.
    a.is_fresh, a.dirty = true, a.dirty or a.leased > 0
  end
  if a.kind ~= LOG then a.prefix = 0 end
  return a
end

local accounts = {}

-- The settled account of a line, under the current limit of its rule.
local function account(key, line)
  local a = accounts[key]
  if not a then
    a = open_account(key, line)
    accounts[key] = a
  end
  migrate(a, line)
  if a.ended then take_ended(a) end
  settle(a, line)
  return a
end

local function save(a)
  local algorithm = ALGORITHMS[a.kind]
  if algorithm.save then return algorithm.save(a) end
  local state = algorithm.encode(a, 0)
  if a.mark and state == '' and a.before == 0 then a.mark = nil end
  local front, last = encode_holds(a, count_places(a))
  if state ~= '' then last = max(last, algorithm.expires_at(a)) end
  state = front .. state
  if state ~= '' then
    call('SET', a.key, state, 'PXAT', milliseconds(last))
  elseif a.stored then
    call('DEL', a.key)
  end
end
