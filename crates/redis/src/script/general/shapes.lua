
-- Shapes: an account keeps the counts of other algorithms, windows or numbers of segments on the
-- same key. Instances may run different versions of a rule, and each migrates the account to its
-- own shape. The counts of the other shapes are kept among the holds until they have expired, and
-- units are charged to all of them, so that none erases what another counts. An entry is what
-- `summarize` returns: 192 plus the kind (1), segments (1), span (6), units (5) and time (7). The
-- shape that was used last comes first. At most `OTHERS_MAX` are kept, and one more that nothing was
-- charged under; beyond that, the one of its sort that ends first is dropped.
--
-- A window that another shape's units are migrated to is given no more of them than its limit
-- allows. Those for which it had no room are `hidden` beside it, for a larger version of the limit,
-- until they would have expired there: an entry with that limit's capacity and the time 0, and one
-- with their number and time, both of the window's own shape.
--
-- A count that has expired is still known to have been migrated, and is not migrated again. If the
-- other shape is newer, because nothing was charged under it yet, an empty entry precedes it, and
-- it may have no units.

local OTHER = 192
local OTHERS_MAX = 3
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

local function kept_until(kept) return ALGORITHMS[kept.kind].kept_until(kept) end

local function add_other(list, kept)
  list = list or {}
  list[#list + 1] = kept
  return list
end

local function id_of(shape)
  return pack('>BBI6', OTHER + shape.kind, shape.segments, shape.span)
end

-- Decodes hidden units; returns whether the entry is of these.
local function load_hidden(a, id, units, at)
  a.hidden_of = a.hidden_of or {}
  local hidden = a.hidden_of[id]
  if at == 0 then
    a.hidden_of[id] = { cap = units }
  elseif hidden and not hidden.units then
    hidden.units, hidden.at = units, at
  else
    return false
  end
  return true
end

-- The hidden units of a shape that still count there, or nil.
local function hidden_of(a, shape)
  local hidden = a.hidden_of and a.hidden_of[id_of(shape)]
  if not hidden or not hidden.units or is_bucket(shape.kind) then return nil end
  hidden.kind, hidden.segments, hidden.span = shape.kind, shape.segments, shape.span
  hidden.at = min(hidden.at, ALGORITHMS[shape.kind].latest(hidden))
  if hidden.units > 0 and kept_until(hidden) > now then return hidden end
end

local function units_of_hidden(shape)
  local hidden = shape.hidden
  return hidden and kept_until(hidden) > now and hidden.units or 0
end

-- Decodes the count of another shape, dated no later than now if the clock was set back.
local function load_other(a, id, units, at, is_newer)
  if load_hidden(a, id, units, at) then return end
  local kind, segments, span = read('>BBI6', id)
  local kept = { kind = kind - OTHER, segments = segments, span = span, units = units }
  kept.is_newer, kept.hidden = is_newer, hidden_of(a, kept)
  kept.at = min(at, ALGORITHMS[kept.kind].latest(kept))
  if kept.at < at then a.redated = true end
  if units > 0 and kept_until(kept) > now then
    a.others = add_other(a.others, kept)
  elseif units > 0 or is_newer then
    a.expired_others = add_other(a.expired_others, kept)
  end
end

-- The number of entries that the other shapes and hidden units need.
local function count_others(a)
  local count = units_of_hidden(a) > 0 and 2 or 0
  for _, kept in ipairs(a.others or {}) do
    count = count + (kept.is_newer and 2 or 1) + (units_of_hidden(kept) > 0 and 2 or 0)
  end
  return count
end

local function encode_hidden(shape)
  local hidden = shape.hidden
  if units_of_hidden(shape) == 0 then return '' end
  local id = id_of(hidden)
  return pack('>c8I5I7c8I5I7', id, hidden.cap, 0, id, hidden.units, hidden.at)
end

local function encode_other(kept)
  local entry = pack('>c8I5I7', id_of(kept), kept.units, kept.at)
  return encode_hidden(kept) .. (kept.is_newer and EMPTY .. entry or entry)
end

local function units_of_other(kept)
  if not is_bucket(kept.kind) then return kept.units end
  return kept.at > now and ceil((kept.at - now) / kept.span) or 0
end

-- Charges the other shapes, or refunds them if `units` is negative.
local function charge_others(a, units)
  local others = a.others
  if not others then return end
  for i = #others, 1, -1 do
    local kept = others[i]
    kept.is_newer = false
    if is_bucket(kept.kind) then
      -- A bucket's units are its capacity, and more than that is not counted.
      kept.at = min(max(kept.at + units * kept.span, now), now + kept.units * kept.span)
    else
      kept.units = min(kept.units + units, USED_MAX)
      if units > 0 and not is_fixed(kept.kind) then kept.at = now end
      if kept.units <= 0 then table.remove(others, i) end
    end
  end
  if not others[1] then a.others = false end
end
