
-- Renews a lease: charges its units that were `spent`, of which a bucket without any others owes
-- some for that long from now, and takes the rest back; also takes back everything
-- granted under the name of the next lease, by a call whose reply was lost. Then decides the
-- request, and grants a lease: as many units as are wanted, but at most a quarter of what remains,
-- so that the other instances find three times as many, and none if that is less than `least`.
local function lease(line, id, till, spent, want, least, fresh_id)
  local a, mine = line.account, line.account.holds[id]
  if mine then
    release(a, id)
    take_spent(a, line, min(spent[1], mine[1]), spent[2])
  end
  release(a, fresh_id)
  local status, states, granted = ALLOWED, {}, 0
  local denied, blocked, all_over = judge({ line }, states)
  if denied or all_over then
    status = DENIED
  elseif blocked then
    status = BLOCKED
  end
  if status ~= BLOCKED then charge({ line }, status == DENIED) end
  local lease_end = ALGORITHMS[a.kind].lease_end
  if lease_end then till = min(till, lease_end(a)) end
  if status == ALLOWED and not line.denied and line.role ~= UNJUDGED and a.holding < LEASES_MAX then
    granted = min(want, floor((remaining(a, line) - a.held) / 4))
    if granted < least or till <= now then granted = 0 end
  end
  if granted > 0 then
    hold(a, fresh_id, granted, till)
    a.changed = true
  end
  states[2] = pack('>I5I5', granted, till - now)
  reply(status, states)
end
