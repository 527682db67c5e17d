
while position <= #requests do
  local step, count, id, lasts, spent, owed, want, least, fresh_id, gives_way, is_apart, memo
  local record
  step, count, position = read('>BB', requests, position)
  if step > 0 and step < REPORT then id, lasts, position = read('>c8I5', requests, position) end
  if step == LEASE then
    spent, owed, want, least, fresh_id, position = read('>I5I7I5I5c8', requests, position)
  end
  local charged_at
  if step == UNDO then charged_at, position = read('>I7', requests, position) end
  if step == REMEMBER then
    lasts, gives_way, is_apart, memo, position = read('>I5BBI2c0', requests, position)
  elseif step == STORE then
    lasts, record, position = read('>I5I4c0', requests, position)
  end
  local lines = {}
  for i = 1, step == REPORT and 0 or count do
    lines[i] = next_line()
    if step == RESERVE or step == CONFIRM then
      lines[i].times, lines[i].denied_times, position = read('>I4I4', requests, position)
    elseif step == SETTLE then
      lines[i].part, position = read('>B', requests, position)
    end
  end
  if step == SETTLE then record, position = read('>I2c0', requests, position) end
  if step == REPORT then
    report(count)
  elseif step == LEASE then
    lease(lines[1], id, now + lasts, { spent, owed }, want, least, fresh_id)
  elseif step == RESERVE then
    reserve(lines, id, now + lasts)
  elseif step == CONFIRM then
    confirm(lines, id)
  elseif step == REMEMBER then
    load_settlement().remember(lines, lasts, gives_way, is_apart, memo)
  elseif step == STORE then
    load_settlement().store(record, lasts)
  elseif step == TAKE then
    load_settlement().take()
  elseif step == SETTLE then
    load_settlement().settle(lines, record)
  elseif step == UNDO then
    load_settlement().undo(lines, charged_at)
  else
    decide(lines)
  end
  if migration then migration.undo_migrations() end
end
-- All writes follow all reads. Reservations come first: their removal needs no memory, and after it
-- Redis accepts the other writes of the call.
for name, record in pairs(records) do
  if record then
    call('SET', name, record, 'PXAT', record_ends[name])
  else
    call('DEL', name)
  end
end
local is_redated = false
for _, a in pairs(accounts) do
  if a.changed then save(a) elseif a.redated then is_redated = true end
end
-- A server that is out of memory, or has become a replica, still answers peeks and denials.
if is_redated then call = try_call end
for _, a in pairs(is_redated and accounts or {}) do
  if a.redated and not a.changed then
    -- Leases that expired and were not charged, because the account was migrated first, are kept.
    for _, lease in ipairs(a.ended or {}) do hold(a, lease[3], lease[1], lease[2]) end
    a.ended = nil
    save(a)
  end
end
