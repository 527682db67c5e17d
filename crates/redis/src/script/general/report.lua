
-- Write-back: charges the units that an instance has allowed on a local count, whether they fit or
-- not, as of when they were allowed: the last of them at `latest`, by this clock, unless it was set
-- back since.
local function next_report()
  local line, base, latest, parts = {}
  line.kind, line.segments, line.cap, line.span, base, latest, parts, position =
    read('>BBI4I6I7I7B', requests, position)
  local back = latest - now
  if back < CLOCK_STEP then back = 0 end
  place = place + 1
  local a = account(KEYS[place], line)
  local algorithm, counted = ALGORITHMS[a.kind], a.used + a.leased
  for _ = 1, parts do
    local at, units
    at, units, position = read('>I7I5', requests, position)
    a.changed, a.raw = true, nil
    charge_others(a, units)
    algorithm.report(a, line, units, at, base, back)
  end
  if parts > 0 then algorithm.mark_debt(a, line.cap, counted) end
  return a
end

-- Charges the reports, and replies with the new state of each account.
local function report(count)
  local states = {}
  for i = 1, count do states[i] = encode_for_reply(next_report(), 0) end
  reply(ALLOWED, states)
end
