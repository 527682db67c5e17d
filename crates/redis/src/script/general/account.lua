
-- The account of a key: its state, its holds, and the counts of other shapes.

-- Decodes a state of `line`'s kind or another. The shorter forms are those of earlier versions,
-- which left out the values that they took from the limit.
local function decode(a, state, line)
  a.kind, a.raw = byte(state), state
  ALGORITHMS[a.kind].decode(a, state, line)
end

-- The state for the reply: leases and these units as if they were charged, and the mark of a window
-- with debt.
local function encode_for_reply(a, units)
  units = units + a.leased
  local state = units == 0 and a.raw or ALGORITHMS[a.kind].encode(a, units)
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
  a.changed, a.is_fresh, a.raw = true, false, nil
  charge_others(a, units)
  ALGORITHMS[a.kind].take(a, line, units)
end

-- Charges units of a lease. Those of a bucket refill from when they were spent.
local function take_spent(a, line, units, owed)
  local take_spent = ALGORITHMS[a.kind].take_spent
  if units == 0 or not take_spent then return take(a, line, units) end
  a.changed, a.is_fresh, a.raw = true, false, nil
  charge_others(a, units)
  take_spent(a, line, units, owed)
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
  a.changed, a.raw = true, nil
  charge_others(a, -units)
  ALGORITHMS[a.kind].refund(a, line, units)
end

-- Charges expired leases, as of when they expired: the result is the same whenever it is computed,
-- so it is not saved unless a request changes the account.
local function take_ended(a)
  local algorithm = ALGORITHMS[a.kind]
  -- Even if there is no other state: as of then, not as of now.
  if a.is_fresh and (is_bucket(a.kind) or a.kind == SLIDING) then a.at = 0 end
  a.is_fresh = false
  table.sort(a.ended, ends_first)
  for _, lease in ipairs(a.ended) do
    local units, ended = lease[1], lease[2]
    a.raw = nil
    charge_others(a, units)
    algorithm.take_ended(a, units, ended)
  end
  a.ended = nil
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
    others = false, expired_others = false, hidden_of = false, hidden = false, ended = false,
    changed = false, is_fresh = false, mark = false, before = false, marked_at = 0,
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
    a.is_fresh = true
  end
  if a.kind ~= LOG then a.prefix = 0 end
  if a.hidden_of then a.hidden = hidden_of(a, a) end
  return a
end

local accounts, migration = {}, false

-- The settled account of a line, under the current limit of its rule.
local function account(key, line)
  local a = accounts[key]
  if not a then
    a = open_account(key, line)
    accounts[key] = a
  end
  local is_same = a.kind == line.kind and a.span == line.span and a.segments == line.segments
  local has_others = a.others or a.expired_others or a.hidden
  if not is_same or has_others and (a.is_fresh or a.cap < line.cap) then
    migration = migration or load_migration()
    migration.migrate(a, line)
  end
  -- Leases alone do not say when the window that starts with them has started.
  if a.is_fresh and a.kind == FIXED_FIRST and (a.leased > 0 or a.ended) then a.redated = true end
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
