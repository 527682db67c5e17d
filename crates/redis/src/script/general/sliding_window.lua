
-- Sliding windows: counters from the newest segment back; the last one is leaving the window.

LOADERS[SLIDING] = function()
  local function estimate(a)
    local inside = 0
    for i = 0, a.segments - 1 do inside = inside + a[i] end
    local leaving = a[a.segments]
    if leaving == 0 then return inside end
    return inside + (scale(leaving, a.span - now % a.span, a.span))
  end

  -- Moves the counters to the segment of `at`.
  local function advance(a, at)
    local current, last = floor(at / a.span), a.segments
    if a.at > current then
      -- How much of its segment had passed is unknown: all units that are leaving count in full
      -- again.
      a[last - 1], a[last], a.redated, a.raw = a[last - 1] + a[last], 0, true, nil
    end
    local passed = min(max(current - a.at, 0), last + 1)
    if passed > 0 then
      for i = last, passed, -1 do a[i] = a[i - passed] end
      for i = 0, passed - 1 do a[i] = 0 end
    end
    a.at = current
  end

  -- The newest units leave last, and have no weight once less than one of them is inside.
  local function last_leaves_at(a, segment, units)
    return (segment + a.segments) * a.span + (scale(a.span, units - 1, units)) + 1
  end

  local function newest_used(a)
    local newest = 0
    while a[newest] == 0 do newest = newest + 1 end
    return newest
  end

  local function clear(a, line)
    a.at = floor(now / line.span)
    for i = 0, line.segments do a[i] = 0 end
  end

  local function decode(a, state)
    local _, segments, width, span, at = read('>BBBI6I7', state)
    a.segments, a.span, a.at = segments, span, at
    local count = (#state - 16) / width
    local counters = { read('>' .. string.rep('I' .. width, count), state, 17) }
    for i = 0, segments do a[i] = i < count and counters[i + 1] or 0 end
  end

  local function encode(a, extra)
    local newest, count, most = a[0], 0, 0
    a[0] = newest + extra
    for i = 0, a.segments do
      if a[i] > 0 then count, most = i + 1, max(most, a[i]) end
    end
    local state = ''
    if count > 0 then
      local width = most < 256 and 1 or most < 65536 and 2 or most < WORD and 4 or 5
      local format = '>BBBI6I7' .. string.rep('I' .. width, count)
      state = pack(format, SLIDING, a.segments, width, a.span, a.at, unpack(a, 0, count - 1))
    end
    a[0] = newest
    return state
  end

  local function expires_at(a)
    local newest = newest_used(a)
    return last_leaves_at(a, a.at - newest, a[newest])
  end

  local function settle(a)
    advance(a, now)
    if a.mark and estimate(a) <= a.mark then a.mark = nil end
  end

  local function used(a)
    advance(a, now)
    return estimate(a)
  end

  local function fits(a, line, units) return estimate(a) + units <= line.cap end

  local function remaining(a, line) return line.cap - estimate(a) end

  local function take(a, _, units) a[0] = a[0] + units end

  -- The number of the last segment in which units of a lease until `till` were spent.
  local function spent_in(a, till) return floor((till - 1) / a.span) end

  local function take_ended(a, units, ended)
    local segment = max(spent_in(a, ended), a.at)
    advance(a, segment * a.span)
    a[0] = a[0] + units
  end

  local function refund(a, _, units)
    for i = 0, a.segments do
      local back = min(units, a[i])
      a[i], units = a[i] - back, units - back
    end
  end

  -- Charges units of the segment with the number `segment`.
  local function report(a, _, units, segment)
    local age = max(a.at - segment, 0)
    if age <= a.segments then a[age] = min(a[age] + units, USED_MAX) end
  end

  local function mark_debt(a, cap)
    if estimate(a) > cap then mark(a, cap, 0, now) end
  end

  -- With its segment, so that its units are reported in the one in which they were spent; never a
  -- lease so short that its instance may not report in time.
  local function lease_end(a)
    local ends = (a.at + 1) * a.span
    return ends - now < LEASE_LEAST and now or ends
  end

  local function leases_end_at(a, leases, last)
    local newest = spent_in(a, last)
    local units = newest == a.at and a[0] or 0
    for _, one in ipairs(leases) do
      if spent_in(a, one[2]) == newest then units = units + one[1] end
    end
    return last_leaves_at(a, newest, units)
  end

  -- All units, at the start of the newest segment that has some.
  local function summarize(a, units) return units, (a.at - newest_used(a)) * a.span end

  local function restore(a, kept) a.at, a[0] = floor(kept.at / a.span), kept.units end

  local function kept_until(kept)
    return last_leaves_at(kept, floor(kept.at / kept.span), kept.units)
  end

  local function latest() return now end

  return {
    clear = clear, decode = decode, encode = encode, expires_at = expires_at, settle = settle,
    used = used, fits = fits, remaining = remaining, take = take, take_ended = take_ended,
    refund = refund, report = report, mark_debt = mark_debt, lease_end = lease_end,
    leases_end_at = leases_end_at,
    summarize = summarize, restore = restore, kept_until = kept_until, latest = latest,
  }
end
