
-- What an account keeps of another shape: a limit of another algorithm, window or number of
-- segments on the same key. Instances may run different versions of a rule, and whichever asks
-- migrates the account to its own shape. What the other one had counted stays in one of the places
-- of the holds until it has expired, and units are charged to both, so that neither erases what the
-- other one counts. Of each shape this is what `summarize` returns: its kind after the byte 192,
-- segments (1), span (6), units (5) and moment (7). Of three shapes at once the one that was asked
-- last but one is dropped.

local OTHER = 192

local function kept_until(kept) return ALGORITHMS[kept.kind].kept_until(kept) end

-- Reads what is kept of another shape, dated no later than a clock that went back allows.
local function load_other(a, id, units, at)
  local kind, segments, span = read('>BBI6', id)
  local kept = { kind = kind - OTHER, segments = segments, span = span, units = units }
  kept.at = min(at, ALGORITHMS[kept.kind].latest(kept))
  if units > 0 and kept_until(kept) > now then a.other = kept end
end

local function encode_other(kept)
  return pack('>BBI6I5I7', OTHER + kept.kind, kept.segments, kept.span, kept.units, kept.at)
end

local function units_of_other(kept)
  if not is_bucket(kept.kind) then return kept.units end
  return max(ceil((kept.at - now) / kept.span), 0)
end

-- Charges the other shape, or gives back if there are fewer than no units.
local function charge_other(a, units)
  local kept = a.other
  if not kept then return end
  if is_bucket(kept.kind) then
    -- Of a bucket the units are its capacity, and more than that is not remembered.
    kept.at = min(max(kept.at + units * kept.span, now), now + kept.units * kept.span)
    return
  end
  kept.units = min(kept.units + units, USED_MAX)
  if kept.units <= 0 then a.other = nil end
  if units > 0 and not is_fixed(kept.kind) then kept.at = now end
end
