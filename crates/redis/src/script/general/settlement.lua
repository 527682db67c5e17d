
-- Reservations: a request is charged an estimate, and settled once, when its cost is known. What was
-- charged, and what the caller wants to know again, are kept under a key of their own: a byte that
-- no state begins with, the moment (7), the number of lines that were charged (1), and of each its
-- place in the request (1), kind (1), segments (1), span (6), units (5), and what says later whether
-- these units still count (7): of a bucket its debt, of a window its end, of a sliding window the
-- number of the segment.
--
-- Loaded only by requests that need it, because functions cost time in a script.

local function load_settlement()
  local RECORD, PART = 82, 21

  local function find_mark(a)
    if is_bucket(a.kind) then return a.at - now end
    return a.kind == LOG and 0 or a.at
  end

  -- Decides a request. If it is allowed, what it was charged is kept for `lasts` microseconds.
  local function remember(lines, lasts, memo)
    local status, parts, count = #replies + 1, {}, 0
    decide(lines)
    place = place + 1
    if replies[status] ~= ALLOWED then return end
    for i, line in ipairs(lines) do
      if not line.denied and line.role ~= UNJUDGED then
        local a = line.account
        count = count + 1
        parts[count] = pack('>BBBI6I5I7', i, a.kind, a.segments, a.span, line.take, find_mark(a))
      end
    end
    local record = pack('>BI7B', RECORD, now, count) .. table.concat(parts) .. memo
    call('SET', KEYS[place], record, 'PXAT', milliseconds(now + lasts))
  end

  -- Takes back up to `units` of those that a log has counted at `at`; returns how many.
  local function refund_entry(a, at, units)
    local live = a.n > 0 and call('GETRANGE', a.key, a.prefix + LOG_HEADER + 11 * a.dead, -1) or ''
    local entries, before, found, back = {}, a.base, 0, 0
    for from = 1, #live, 11 do
      local moment, sum = read('>I7I4', live, from)
      if moment - a.shift == at then
        found = #entries + 1
        back = min(units, (sum - before) % WORD)
      end
      before = sum
      entries[#entries + 1] = found > 0 and pack('>I7I4', moment, (sum - back) % WORD)
        or string.sub(live, from, from + 10)
    end
    if back == 0 then return 0 end
    a.used, a.sum, a.dirty, a.raw = a.used - back, (a.sum - back) % WORD, true, nil
    -- The newest entry says how long the log matters, so none that has no units may be the newest.
    while #entries > 0 do
      local moment, sum = read('>I7I4', entries[#entries])
      local _, last = 0, a.base
      if #entries > 1 then _, last = read('>I7I4', entries[#entries - 1]) end
      a.last_at = moment - a.shift
      if sum ~= last then break end
      entries[#entries] = nil
    end
    a.n, a.dead = #entries, 0
    if a.n == 0 then
      a.used = 0
    else
      call('SET', a.key, string.rep('\0', a.prefix + LOG_HEADER) .. table.concat(entries))
    end
    return back
  end

  -- Refunds up to `units` that were charged as `part` says, as far as they still count; returns how
  -- many. None, if the limit counts in another way by now: which of its units these are is not known.
  local function refund_part(a, line, part, units)
    if a.kind ~= part.kind or a.span ~= part.span or a.segments ~= part.segments then return 0 end
    local back = 0
    if is_bucket(a.kind) then
      -- Units refill in the order in which they were charged.
      local left = min(part.mark - (now - part.at), units * a.span, a.at - now)
      if left <= 0 then return 0 end
      back = floor(left / a.span)
      a.at = a.at - left
    elseif a.kind == LOG then
      back = refund_entry(a, part.at, units)
    elseif a.kind == SLIDING then
      local age = a.at - part.mark
      if age < 0 or age > a.segments then return 0 end
      back = min(units, a[age])
      a[age] = a[age] - back
    elseif a.at == part.mark then
      back = min(units, a.used)
      refund(a, line, back)
      return back
    end
    a.dirty, a.raw = true, nil
    charge_other(a, -back)
    return back
  end

  -- Charges as many of `units` as fit; returns how many.
  local function charge_excess(a, line, units)
    local room = max(remaining(a, line) - a.held, 0)
    charge_denied(a, line, min(units, line.cap))
    return min(room, units)
  end

  -- Charges each line its actual units in place of those that were reserved, if they still are.
  local function settle_reserved(lines)
    local states = {}
    place = place + 1
    local record = call('GET', KEYS[place])
    if not record or byte(record) ~= RECORD then
      for i = 1, #lines do states[i] = '' end
      return reply(DENIED, states)
    end
    call('DEL', KEYS[place])
    local _, at, count = read('>BI7B', record)
    local parts = {}
    for i = 0, count - 1 do
      local part, index = { at = at }
      index, part.kind, part.segments, part.span, part.units, part.mark =
        read('>BBBI6I5I7', record, 10 + PART * i)
      parts[index] = part
    end
    for i, line in ipairs(lines) do
      local a, part, charged = line.account, parts[line.part], 0
      if part and line.take > part.units then
        charged = part.units + charge_excess(a, line, line.take - part.units)
      elseif part then
        charged = part.units - refund_part(a, line, part, part.units - line.take)
      end
      states[i] = pack('>I5I5', charged, max(remaining(a, line), 0))
    end
    reply(ALLOWED, states)
  end

  return { remember = remember, settle = settle_reserved }
end
