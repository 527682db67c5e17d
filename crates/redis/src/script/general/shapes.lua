
-- Shapes: an account keeps the count of another algorithm, window or number of segments on the same
-- key. Instances may run different versions of a rule, and each migrates the account to its own
-- shape. The count of the other shape is kept as one of the holds until it has expired, and
-- units are charged to both, so that neither erases what the other counts. The entry is what
-- `summarize` returns: 192 plus the kind (1), segments (1), span (6), units (5) and time (7). If
-- there are three shapes, the one that was used last but one is dropped.
--
-- A count that has expired is still known to have been migrated, and is not migrated again. If the
-- other shape is newer, because nothing was charged under it yet, an empty entry precedes it, and
-- it may have no units.

local OTHER = 192
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

local function kept_until(kept) return ALGORITHMS[kept.kind].kept_until(kept) end

-- Decodes the count of another shape, dated no later than now if the clock was set back.
local function load_other(a, id, units, at, is_newer)
  local kind, segments, span = read('>BBI6', id)
  local kept = { kind = kind - OTHER, segments = segments, span = span, units = units }
  kept.is_newer = is_newer
  kept.at = min(at, ALGORITHMS[kept.kind].latest(kept))
  if kept.at < at then a.redated = true end
  if units > 0 and kept_until(kept) > now then
    a.other = kept
  elseif units > 0 or is_newer then
    a.expired_other = kept
  end
end

local function encode_other(kept)
  local entry = pack('>BBI6I5I7', OTHER + kept.kind, kept.segments, kept.span, kept.units, kept.at)
  return kept.is_newer and EMPTY .. entry or entry
end

local function units_of_other(kept)
  if not is_bucket(kept.kind) then return kept.units end
  return kept.at > now and ceil((kept.at - now) / kept.span) or 0
end

-- Charges the other shape, or refunds it if `units` is negative.
local function charge_other(a, units)
  local kept = a.other
  if not kept then return end
  kept.is_newer = false
  if is_bucket(kept.kind) then
    -- A bucket's units are its capacity, and more than that is not counted.
    kept.at = min(max(kept.at + units * kept.span, now), now + kept.units * kept.span)
    return
  end
  kept.units = min(kept.units + units, USED_MAX)
  if kept.units <= 0 then a.other = nil end
  if units > 0 and not is_fixed(kept.kind) then kept.at = now end
end
