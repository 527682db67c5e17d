
-- Two-phase commit: decisions over several slots, in rounds of requests with the same lines.

-- How many requests fit in a line, in addition to other reservations: at most those of the round.
local function count_fitting(a, line, id)
  if line.denied then return 0 end
  if line.role == UNJUDGED then return line.times end
  if a.holding >= HOLDS_MAX and not a.holds[id] then return 0 end
  if not fits(a, line, line.units + a.held) then return 0 end
  if line.take == 0 then return line.times end
  return min(line.times, 1 + floor((remaining(a, line) - a.held - line.units) / line.take))
end

-- Reserves the part of a round in this slot: for each line, units for as many requests as fit.
-- Replies with these numbers, and blocked if lines have room only without the reservations of
-- others, and none is reserved. The caller sees all parts and decides the requests.
local function reserve(lines, id, till)
  local states, any, blocked = {}, false, false
  -- Releases the reservation of an earlier attempt of this round.
  for _, line in ipairs(lines) do release(line.account, id) end
  local denied = judge(lines, states)
  for i, line in ipairs(lines) do
    local a = line.account
    local count = count_fitting(a, line, id)
    if count > 0 and line.take > 0 then
      -- Lines of other costs may be on the same key.
      local before = a.holds[id] and a.holds[id][1] or 0
      release(a, id)
      hold(a, id, before + count * line.take, till)
      a.changed = true
    end
    any, blocked = any or count > 0, blocked or count == 0 and not line.denied
    states[i] = pack('>I4', count) .. states[i]
  end
  reply(denied and DENIED or blocked and not any and BLOCKED or ALLOWED, states)
end

-- Charges the reserved units for the allowed requests, all of them or, if some have expired, none;
-- releases the rest, and charges denied requests to the lines that charge for denials. If denied
-- requests were charged for some of the reserved units, replies with the units of each line (5).
local function confirm(lines, id)
  for _, line in ipairs(lines) do
    if line.times > 0 and line.take > 0 and not line.account.holds[id] then
      return reply(DENIED, {})
    end
  end
  local held = {}
  for _, line in ipairs(lines) do
    local a = line.account
    held[a] = held[a] or a.holds[id] and a.holds[id][1] or 0
    release(a, id)
  end
  local status, parts = ALLOWED, {}
  for i, line in ipairs(lines) do
    -- Denied requests that came meanwhile have taken the rest.
    local a, wanted = line.account, line.take * line.times
    local units = min(wanted, held[a])
    held[a], parts[i] = held[a] - units, units
    take(a, line.widest, units)
    if units < wanted then status = ALLOWED_IN_PART end
  end
  for _, line in ipairs(lines) do
    local cost = min(line.denied_cost * line.denied_times, UNITS_MAX)
    if cost > 0 then charge_denied(line.account, line.widest, cost) end
  end
  if status == ALLOWED then return reply(ALLOWED, {}) end
  for i, units in ipairs(parts) do parts[i] = pack('>I5', units) end
  reply(status, { table.concat(parts) })
end
