
-- Fixed windows: the end of one window and the units used in it. A window is aligned to the clock,
-- or starts with its first request.

LOADERS[FIXED_CLOCK] = function()
  -- The end of a window that starts now, or of the current one of the clock.
  local function fresh_end(kind, span)
    return kind == FIXED_CLOCK and now - now % span + span or now + span
  end

  -- The end of the window of the clock in which a lease expires.
  local function window_end(span, till) return till - 1 - (till - 1) % span + span end

  local function clear(a, line) a.at = fresh_end(a.kind, line.span) end

  -- Earlier versions left out the window's length.
  local function decode(a, state, line)
    if #state < 18 then
      state, a.raw = state .. pack('>I6', line.span), nil
    end
    local _
    _, a.at, a.used, a.span = read('>BI7I4I6', state)
  end

  local function encode(a, extra)
    local used = min(a.used + extra, USED_MAX)
    -- A window that starts with its first request lasts as long as units of it are leased.
    if used == 0 and (a.kind == FIXED_CLOCK or a.leased == 0) then return '' end
    return pack('>BI7I4I6', a.kind, a.at, used, a.span)
  end

  local function expires_at(a)
    if not a.mark then return a.at end
    -- Units beyond the capacity take further windows, leases included.
    local over = max(a.used + a.leased - a.mark, 0)
    return a.at + ceil(over / max(a.mark, 1)) * a.span + LATE
  end

  -- Starts the current window, with the units used beyond the capacity of those before, each of
  -- which pays its capacity back; keeps the units used in the last one.
  local function roll(a, line, fresh)
    local cap, span = a.mark or line.cap, line.span
    local passed = floor((now - a.at) / span)
    if passed == 0 then
      a.before, a.marked_at = a.used, a.at
    else
      a.before, a.marked_at = max(a.used - passed * cap, 0), a.at + passed * span
    end
    local over = a.mark and max(a.before - cap, 0) or 0
    a.at = over > 0 and a.marked_at + span or fresh
    a.used, a.raw = over, nil
    -- While units are owed, they are paid back at the same rate, whichever limit decides. Otherwise
    -- the mark starts from the current limit, and a larger one that charges this window raises it.
    if a.mark and over == 0 then a.mark = line.cap end
  end

  local function settle(a, line)
    local fresh = fresh_end(a.kind, line.span)
    if a.at <= now and a.used > 0 then
      roll(a, line, fresh)
    elseif a.at <= now or a.used == 0 and a.leased == 0 then
      a.at, a.used = fresh, 0
    elseif a.at > fresh or a.kind == FIXED_CLOCK and a.at < fresh then
      a.at, a.redated, a.raw = fresh, true, nil
    end
  end

  local function used(a) return a.at > now and a.used or 0 end

  local function fits(a, line, units) return a.used + units <= line.cap end

  local function remaining(a, line) return line.cap - a.used end

  local function take(a, line, units)
    a.used = min(a.used + units, USED_MAX)
    -- Units that a larger limit allows are not owed to later windows.
    if a.mark then a.mark = max(a.mark, line.cap) end
  end

  local function take_ended(a, units, ended)
    if a.kind == FIXED_FIRST then
      -- It expires at the end of its window at the latest, and that one is over then.
      a.used = min(a.used + units, USED_MAX)
      return
    end
    -- If that window is over, only its units beyond the capacity still count.
    local ends = window_end(a.span, ended)
    if ends > now and a.at ~= ends then a.at, a.used = ends, 0 end
    if a.at == ends then a.used = min(a.used + units, USED_MAX) end
  end

  local function refund(a, line, units)
    a.used = max(a.used - units, 0)
    -- A window that got all its units back has not started.
    if a.used == 0 and a.leased == 0 then begin(a, line) end
  end

  -- Charges units of the window that ends at `ends`.
  local function report(a, line, units, ends)
    if ends > now then
      if a.used == 0 and a.leased == 0 and a.kind == FIXED_FIRST then a.at = min(ends, a.at) end
      a.used = min(a.used + units, USED_MAX)
      return
    end
    -- In a window that is over, only units beyond its capacity count.
    if not a.before or a.before == 0 then a.before, a.marked_at = 0, ends end
    if ends <= a.marked_at and ends > a.marked_at - line.span then
      local over = max(a.before - line.cap, 0)
      a.before = min(a.before + units, USED_MAX)
      a.used = min(a.used + max(a.before - line.cap, 0) - over, USED_MAX)
    end
  end

  -- Without a mark, some limit has allowed all units counted before.
  local function mark_debt(a, cap, counted)
    local largest = max(cap, a.mark or counted)
    if a.used > 0 or a.before then mark(a, largest, a.before or 0, a.marked_at or 0) end
  end

  local function lease_end(a) return a.at end

  local function leases_end_at(a, _, last)
    return a.kind == FIXED_CLOCK and window_end(a.span, last) or last
  end

  local function summarize(a, units) return units, a.at end

  local function restore(a, kept) a.at, a.used = kept.at, kept.units end

  local function kept_until(kept) return kept.at end

  local function latest(kept) return fresh_end(kept.kind, kept.span) end

  return {
    clear = clear, decode = decode, encode = encode, expires_at = expires_at, settle = settle,
    used = used, fits = fits, remaining = remaining, take = take, take_ended = take_ended,
    refund = refund, report = report, mark_debt = mark_debt, lease_end = lease_end,
    leases_end_at = leases_end_at,
    summarize = summarize, restore = restore, kept_until = kept_until, latest = latest,
  }
end
LOADERS[FIXED_FIRST] = LOADERS[FIXED_CLOCK]
