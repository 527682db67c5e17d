-- Decides requests of any kind: all algorithms, several limits, refunds, peeks, changed limits.
--
-- KEYS     the key of each line (one limit of a request), request by request
-- ARGV[1]  the requests, packed (see `script_request.rs`)
-- Replies with the time and, for each request, whether it is allowed, denied, or blocked by a
-- reservation, and the state of each of its lines before it was charged: from that, core's own
-- functions derive the verdict.
--
-- All times are whole microseconds since 1970. Every number here is an integer below 2^53, where
-- doubles are exact: times until the year 2255, and buckets of at most 100 years. The only products
-- that could be larger are computed by `scale`.
--
-- This script is concatenated from the files of this folder, in the order in `script/text.rs`.

local pack, read, byte = struct.pack, struct.unpack, string.byte
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local FIXED_CLOCK, FIXED_FIRST, LOG, SLIDING, TOKEN, LEAKY = 1, 2, 3, 4, 5, 6
local ENFORCE, SHADOW, QUOTA, UNJUDGED = 0, 1, 2, 3
local RESERVE, CONFIRM, LEASE, REPORT, REMEMBER, SETTLE, UNDO = 1, 2, 4, 5, 6, 7, 8
local STORE, TAKE = 9, 10
local DENIED, ALLOWED, BLOCKED, ALLOWED_IN_PART = '\0', '\1', '\2', '\4'
local WORD = 4294967296
-- The bytes of a log's state in front of its entries.
local LOG_HEADER = 22
-- The longest lifetime of a lease: if it is longer, the clock was set back.
local LEASE_LASTS = 10000000
-- A lease that would be shorter, because its segment ends, is not granted.
local LEASE_LEAST = 1000000
-- The most leases, and holds of any kind, of one key: the number of entries is one byte, and a mark
-- and the counts of other shapes need 16 at most.
local LEASES_MAX, HOLDS_MAX = 100, 239
-- The longest debt of a bucket, and the most units of any counter that are stored.
local DEBT_MAX, USED_MAX = 3153600000000000, 4294967295
-- The most units that one line costs.
local UNITS_MAX = 1099511627775
-- How long a window's count outlives the window, for late reports.
local LATE = 900000
-- If reported units are of a time later than now by this much, the clock was set back.
local CLOCK_STEP = 1000000

-- By kind, the functions of an algorithm:
--
--   clear(a, line)                   an account with nothing consumed
--   decode(a, state, line)           an account from a stored state
--   encode(a, extra)                 the state to store, as if `extra` units were charged as well
--   expires_at(a)                    when the account becomes equal to a cleared one
--   settle(a, line)                  advances it to the current time
--   used(a)                          units that still count, after settling
--   fits(a, line, units)             whether this many further units are within the limit
--   remaining(a, line)               how many units would fit, without deducting leased ones
--   take(a, line, units)             charges units now
--   take_spent(a, line, units, owed) charges units of a lease as of when they were spent; without
--                                    it, they are charged now
--   take_ended(a, units, ended)      charges units of a lease as of when it expired
--   refund(a, line, units)           refunds units
--   charge_denied(a, line, units)    charges a denied request; without it, up to what remains
--   report(a, line, units, at, base, back)
--                                    charges units of a local count as of `at`, after the clock was
--                                    set back by `back`
--   mark_debt(a, cap)                marks units that such reports charged beyond the capacity
--   lease_end(a)                     the latest end of a lease; without it, any
--   leases_end_at(a, leases, last)   until when leases that are not returned matter
--   summarize(a, units)              units and time to keep when another shape takes its place
--   restore(a, kept)                 the account from what `summarize` has returned
--   kept_until(kept)                 until when that counts
--   latest(kept)                     the latest time that it may have, unless the clock was set
--   back
--
-- In addition `set_terms` and `convert` of buckets; `save`, `reply`, `read_entry`, `read_entries`,
-- `find_entry`, `find_last` and `end_at_units` of logs.
-- Functions cost time in a script, which creates them in every call: so each algorithm is loaded
-- when it is first needed.
--
-- Accounts are settled and migrated in memory. Two flags say whether that is stored:
--
--   changed                          a request has charged, refunded, held or released units: the
--                                    account is saved. Peeks and denials do not set it
--   redated                          units got a date which a later decision would derive from its
--                                    own time again: it is saved if Redis can write, so that retry
--                                    times stay exact
local LOADERS = { false, false, false, false, false, false }
local ALGORITHMS = setmetatable({}, {
  __index = function(algorithms, kind)
    algorithms[kind] = LOADERS[kind]()
    return algorithms[kind]
  end,
})

local function is_bucket(kind) return kind >= TOKEN end

local function is_fixed(kind) return kind == FIXED_CLOCK or kind == FIXED_FIRST end

-- A key expires at the first whole millisecond at which its state no longer matters.
local function milliseconds(expires_at)
  return string.format('%d', ceil(expires_at / 1000) + origin)
end

-- floor(a * b / c) and the remainder; b <= c < 2^45. Long division by digits of 7 bits.
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

-- An account with nothing consumed, under the limit of `line`.
local function begin(a, line)
  a.kind, a.span, a.cap, a.segments, a.used = line.kind, line.span, line.cap, line.segments, 0
  ALGORITHMS[a.kind].clear(a, line)
end
