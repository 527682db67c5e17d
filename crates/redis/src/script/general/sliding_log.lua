
-- Sliding logs: a header, then one entry of 11 bytes for each time at which units were allowed,
-- with the sum of all units up to it (modulo 2^32). Entries are found by binary search, added at
-- the end, and expire by being counted as dead; dead entries are removed once they are half of all.
--
-- The first `rows` entries are those in Redis; the `tail` has those after them, to be written by
-- `save`. If entries in Redis are to be removed, the log `moves`: it is written as a whole.
--
-- A string in Redis cannot be shortened otherwise. So entries at the end that have no units any
-- more, after a refund, are `spare`: they stay as copies of the last one with units, and the next
-- charge uses the first of them. If there are too many, the log moves.

LOADERS[LOG] = function()
  local HEADER, ENTRY = LOG_HEADER, 11
  -- The most spare entries: an eighth of the log, but within these bounds. All of them are written
  -- with each charge and refund.
  local SPARE_LEAST, SPARE_MAX = 32, 1000

  local function encode_header(a)
    return pack('>BI6I7I4I4', LOG, a.span, a.shift, a.dead, a.base)
  end

  local function read_entry(a, index)
    local at, sum
    if index < a.rows then
      local from = a.prefix + HEADER + ENTRY * index
      at, sum = read('>I7I4', call('GETRANGE', a.key, from, from + ENTRY - 1))
    else
      at, sum = read('>I7I4', a.tail, 1 + ENTRY * (index - a.rows))
    end
    return at - a.shift, sum
  end

  -- All entries from this one on, encoded.
  local function read_entries(a, first)
    if first >= a.rows then return string.sub(a.tail, 1 + ENTRY * (first - a.rows)) end
    local from = a.prefix + HEADER
    return call('GETRANGE', a.key, from + ENTRY * first, from + ENTRY * a.rows - 1) .. a.tail
  end

  -- The first entry from `low` on for which `holds`, which stays true once it is; `high` if none.
  local function find_entry(a, low, high, holds)
    local step = 1
    while low + step <= high and not holds(read_entry(a, low + step - 1)) do
      low = low + step
      step = step * 2
    end
    high = min(high, low + step - 1)
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(read_entry(a, middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- The time at which the `need` oldest units have left.
  local function units_left_at(a, need)
    local function is_enough(_, sum) return (sum - a.base) % WORD >= need end
    return (read_entry(a, find_entry(a, a.dead, a.n, is_enough))) + a.span
  end

  local function clear(a)
    a.n, a.shift, a.dead, a.base, a.sum, a.last_at, a.rows, a.tail = 0, 0, 0, 0, 0, 0, 0, ''
    a.spare = 0
  end

  local function decode(a, state)
    local _
    _, a.span, a.shift, a.dead, a.base = read('>BI6I7I4I4', state)
    a.raw = nil
    a.n = (call('STRLEN', a.key) - a.prefix - HEADER) / ENTRY
    a.rows, a.tail = a.n, ''
    local from = a.prefix + HEADER + ENTRY * max(a.n - 2, 0)
    local newest = call('GETRANGE', a.key, from, from + 2 * ENTRY - 1)
    local at, before
    at, a.sum = read('>I7I4', newest, #newest - ENTRY + 1)
    _, before = read('>I7I4', newest)
    -- If the newest entry has no units: how many there are of these is found when it is needed.
    a.last_at, a.spare = at - a.shift, (#newest == ENTRY or before ~= a.sum) and 0
  end

  local function settle(a)
    if a.n == 0 then return end
    if a.last_at > now then
      a.shift = a.shift + a.last_at - now
      a.last_at, a.redated = now, true
    end
    local function is_inside(at) return now - at < a.span end
    local first = find_entry(a, a.dead, a.n, is_inside)
    if first == a.n then
      a.n, a.used = 0, 0
      return
    end
    if first > a.dead then
      local _, sum = read_entry(a, first - 1)
      a.base, a.dead = sum, first
    end
    a.used = (a.sum - a.base) % WORD
  end

  local function used(a)
    settle(a)
    return a.used
  end

  local function fits(a, line, units) return a.used + units <= line.cap end

  local function remaining(a, line) return line.cap - a.used end

  -- The last entry that is not spare.
  local function find_last(a)
    if not a.spare then
      local function has_all(_, sum) return sum == a.sum end
      local low = max(a.dead, a.n - 1 - SPARE_MAX)
      a.spare = a.n - 1 - find_entry(a, low, a.n, has_all)
    end
    return a.n - 1 - a.spare
  end

  -- Writes the last entry with units, and those after it as its copies.
  local function write_last(a, index, at)
    local whole = string.sub(a.tail, 1, ENTRY * max(index - a.rows, 0))
    a.last_at, a.rows, a.spare = at, min(a.rows, index), a.n - 1 - index
    a.tail = whole .. string.rep(pack('>I7I4', at + a.shift, a.sum), a.n - index)
  end

  -- At a time that is not before the newest entry.
  local function append(a, units, at)
    a.used = a.used + units
    if a.n == 0 then
      a.n, a.shift, a.dead, a.base, a.sum, a.rows, a.tail = 1, 0, 0, 0, units, 0, ''
      return write_last(a, 0, at)
    end
    local index = find_last(a) + (a.last_at ~= at and 1 or 0)
    a.sum, a.n = (a.sum + units) % WORD, max(a.n, index + 1)
    write_last(a, index, at)
  end

  -- Makes entries spare that have no units any more at the end of a log that has some.
  local function end_at_units(a)
    local function has_all(_, sum) return (sum - a.base) % WORD >= a.used end
    local last = find_entry(a, a.dead, a.n, has_all)
    write_last(a, last, (read_entry(a, last)))
    local most = min(max((last - a.dead) / 8, SPARE_LEAST), SPARE_MAX)
    a.moves = a.moves or a.spare > most
  end

  local function take(a, _, units) append(a, units, now) end

  local function take_ended(a, units, ended)
    settle(a)
    if ended + a.span <= now then return end
    append(a, units, a.n > 0 and max(ended, a.last_at) or ended)
  end

  local function refund(a, _, units)
    if a.used == 0 then return end
    if units >= a.used then
      a.n, a.used = 0, 0
      return
    end
    a.used = a.used - units
    a.sum = (a.base + a.used) % WORD
    end_at_units(a)
  end

  local function leases_end_at(a, _, last) return last + a.span end

  -- All units, at the time of the newest.
  local function summarize(a, units) return units, a.last_at end

  local function restore(a, kept) append(a, kept.units, kept.at) end

  local function kept_until(kept) return kept.at + kept.span end

  local function latest() return now end

  -- The entries of a log are not moved as long as the holds fit in front of them.
  local function save(a)
    local places, needed, live = (a.prefix > 0 and a.prefix - 2 or 0) / HOLD, count_places(a)
    local moves = a.moves or a.rows == 0 or a.n == 0 or a.dead >= 32 and a.dead * 2 >= a.n
    if moves and needed == 0 then
      places = 0
    elseif needed > places then
      places, moves = min(max(4, 2 * needed), 255), true
    end
    if moves then
      local last = a.n > 0 and find_last(a) or -1
      a.n, a.rows = last + 1, min(a.rows, last + 1)
      a.tail, a.spare = string.sub(a.tail, 1, ENTRY * (a.n - a.rows)), 0
      live = a.n > 0 and read_entries(a, a.dead) or ''
      a.n, a.dead = max(a.n - a.dead, 0), 0
    end
    local front, last = encode_holds(a, places)
    local first = #front + HEADER
    if a.n > 0 then
      front, last = front .. encode_header(a), max(last, a.last_at + a.span)
    end
    if moves and front == '' then
      if a.stored then call('DEL', a.key) end
    elseif moves then
      call('SET', a.key, front .. live, 'PXAT', milliseconds(last))
    else
      -- An error reply: Redis cannot write now (see `main.lua`), but it could set the expiry.
      if type(call('SETRANGE', a.key, 0, front)) == 'table' then return end
      if a.tail ~= '' then call('SETRANGE', a.key, first + ENTRY * a.rows, a.tail) end
      call('PEXPIREAT', a.key, milliseconds(last))
    end
  end

  -- The summary of a log in the reply, in place of its entries: units, the newest, and when enough
  -- have left for the request to fit, before and after it is charged for its denial; as if leases
  -- and `units` were charged.
  local function reply(a, line, units)
    local used, newest = a.used + a.leased + units, a.leased + units > 0 and now or a.last_at
    if used == 0 and line.denied_cost == 0 then return '' end
    local before, after, lacking = 0, 0, used + line.units - line.cap
    local function left(need) return need <= a.used and units_left_at(a, need) or now + a.span end
    if line.role ~= UNJUDGED and line.units <= line.cap then
      if lacking > 0 then before = left(lacking) end
      -- Even if this line allows: another one may deny, and this one be charged for it.
      local widest = line.widest
      lacking = lacking + min(line.denied_cost, max(widest.cap - widest.kept - used, 0))
      if lacking > 0 then after = left(lacking) end
    end
    return pack('>BI4I7I7I7', LOG, used, newest, before, after)
  end

  return {
    clear = clear, decode = decode, settle = settle, used = used, fits = fits,
    remaining = remaining, take = take, take_ended = take_ended, refund = refund,
    leases_end_at = leases_end_at, summarize = summarize, restore = restore,
    kept_until = kept_until, latest = latest, save = save, reply = reply,
    read_entry = read_entry, read_entries = read_entries, find_entry = find_entry,
    find_last = find_last, end_at_units = end_at_units,
  }
end
