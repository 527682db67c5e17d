
-- Token and leaky buckets: the time at which the bucket is full again (GCRA's theoretical arrival
-- time), the time of one unit, and the capacity under which the units were charged.

LOADERS[TOKEN] = function()
  local function clear(a) a.at = now end

  -- Earlier versions left out the capacity, and had fewer bytes for the time of a unit.
  local function decode(a, state, line)
    local _
    if #state < 18 then
      _, a.at, a.span = read(#state == 12 and '>BI7I4' or '>BI7I6', state)
      a.cap, a.raw = line.cap, nil
    else
      _, a.at, a.span, a.cap = read('>BI7I6I4', state)
    end
  end

  local function expires_at(a) return a.at end

  local function used(a) return a.at > now and ceil((a.at - now) / a.span) or 0 end

  -- The time, price and capacity at `moment` for `units`, which are more than the capacity: limits
  -- that were larger have granted some of them. All of them count, because such a limit may be in
  -- use elsewhere, but the key is not locked for longer than its limit remembers: each unit costs
  -- less.
  local function terms_of_excess(a, units, moment)
    units = min(units, USED_MAX)
    local span = max(floor(a.cap * a.span / units), 1)
    return moment + units * span, span, units
  end

  -- Units charged at `moment` that were not judged under this limit may be more than it allows.
  local function keep_excess(a, moment)
    if not a.mark and a.at - moment > a.cap * a.span then
      a.at, a.span, a.cap = terms_of_excess(a, ceil((a.at - moment) / a.span), moment)
    end
  end

  local function encode(a, extra)
    local at, span, cap = a.at + extra * a.span, a.span, a.cap
    -- Leased units have the price of the limit that granted them.
    if at <= now and a.leased == 0 then return '' end
    if extra > 0 and not a.mark and at - now > cap * span then
      at, span, cap = terms_of_excess(a, used(a) + extra, now)
    end
    return pack('>BI7I6I4', a.kind, at, span, cap)
  end

  -- Whether this many further units, which were not judged under `line`, exceed its capacity, on
  -- top of those that a larger limit has counted or granted. Then the terms stay those of the
  -- larger one: at another price, all of its units could take longer than the memory of either
  -- limit.
  local function is_beyond(a, line, units)
    return a.cap > line.cap and used(a) + a.leased + units > line.cap
  end

  -- By its own terms: a smaller limit must not lower what a larger one has counted.
  local function settle(a, line)
    a.stored_at = a.at
    local latest = now + (a.mark or a.cap) * a.span
    if a.mark then
      if a.marked_at > now then a.at, a.redated, a.raw = a.at - (a.marked_at - now), true, nil end
      a.marked_at = now
      if a.at <= latest then a.mark = nil end
    elseif a.at > latest then
      a.at, a.redated, a.raw = latest, true, nil
    end
    a.full_at = a.at
    if a.at <= now then
      a.at = now
      if not is_beyond(a, line, 0) then a.span, a.cap = line.span, line.cap end
    end
  end

  -- A debt at another price; a fraction of a microsecond counts as `fraction`.
  local function convert(debt, was, is, fraction)
    local part, rest = scale(is, debt % was, was)
    return floor(debt / was) * is + part + (rest > 0 and fraction or 0)
  end

  -- Sets the price and the capacity of a bucket's debt to those of `line`: the same number of
  -- units, fractions rounded up. A debt that would be too long to store is left as it is.
  local function set_terms(a, line)
    local span = line.span
    if a.span ~= span then
      local debt = convert(max(a.at - now, 0), a.span, span, 1)
      if span == 0 or debt > DEBT_MAX then return end
      a.at, a.span = now + debt, span
    end
    a.cap, a.raw = line.cap, nil
  end

  local function fits(a, line, units) return a.at - now <= (line.cap - units) * a.span end

  local function remaining(a, line) return line.cap - used(a) end

  -- As `set_terms`, before units are charged.
  local function set_terms_to_charge(a, line, units)
    if not is_beyond(a, line, units) then set_terms(a, line) end
  end

  local function take(a, line, units)
    set_terms_to_charge(a, line, units)
    a.at = a.at + units * a.span
    keep_excess(a, now)
  end

  -- If nothing else was taken, the bucket would owe units for as long as `owed` from now. What
  -- others took meanwhile is in `full_at`: the later of the two sums is never earlier than if all
  -- had been charged in their order, and is the same if there are no others.
  local function take_spent(a, line, units, owed)
    set_terms_to_charge(a, line, units)
    if a.full_at > now then a.full_at = a.at end
    a.at = max(a.full_at + units * a.span, now + min(owed, units * a.span), now)
    a.full_at = a.at
    keep_excess(a, now)
  end

  -- As of then, or as of the earliest moment at which the bucket can have had its debt, so that the
  -- result is the same whenever it is computed.
  local function take_ended(a, units, ended)
    local moment = max(ended, a.at - a.cap * a.span)
    a.at = max(a.at, ended) + units * a.span
    keep_excess(a, moment)
  end

  local function refund(a, _, units) a.at = max(a.at - min(units, WORD - 1) * a.span, now) end

  -- Up to the capacity, including a fraction of a unit.
  local function charge_denied(a, line, units)
    local cap = line.cap - a.leased - line.kept
    if a.at - now >= cap * a.span then return end
    a.changed = true
    set_terms(a, line)
    local at, before = a.at, used(a)
    a.at = min(at + units * a.span, max(at, now + cap * a.span))
    -- Only what this limit had left: the units of the denied request are not consumed.
    charge_others(a, used(a) - before)
    if a.held == 0 then return end
    local beside = min(a.at, max(at, now + (cap - a.held) * a.span))
    -- A fraction of a judged and reserved unit is charged, and nothing beyond the capacity.
    local round = beside > at and ceil or floor
    shrink_holds(a, round((a.at - beside) / a.span))
  end

  local function report(a, line, units, at, base, back)
    if back > 0 then
      -- What was counted by the later clock is as old as these units, unless there is more of it.
      if a.stored_at == base then a.at, a.full_at = max(base - back, now), base - back end
      at, base = at - back, base - back
    end
    set_terms_to_charge(a, line, units)
    if a.full_at > now then a.full_at = a.at end
    local span = a.span
    local full_at, longest = a.full_at, floor(DEBT_MAX / max(span, 1))
    -- An expired account was full again before now: the report says when.
    if a.is_fresh and full_at <= now then full_at = min(base, now) end
    units = min(units, longest)
    at = min(at, now + min(max(units, line.cap), longest) * span)
    a.at = min(max(full_at + units * span, at, now), now + DEBT_MAX)
    -- Units beyond the capacity may be a difference of the clocks: they are not owed.
    if back > 0 then a.at = min(a.at, max(full_at, now + a.cap * span)) end
    a.full_at = a.at
  end

  local function mark_debt(a, cap)
    cap = max(cap, a.cap)
    if a.at > now + cap * a.span then mark(a, cap, 0, now) end
  end

  local function leases_end_at(a, leases)
    if #leases > 1 then table.sort(leases, ends_first) end
    local at = a.at
    for _, one in ipairs(leases) do at = max(at, one[2]) + one[1] * a.span end
    return at
  end

  local function summarize(a) return a.cap, a.at end

  local function restore(a, kept) a.at, a.span, a.cap = kept.at, kept.span, kept.units end

  local function kept_until(kept) return kept.at end

  local function latest(kept) return now + kept.units * kept.span end

  return {
    clear = clear, decode = decode, encode = encode, expires_at = expires_at, settle = settle,
    used = used, fits = fits, remaining = remaining, take = take, take_spent = take_spent,
    take_ended = take_ended,
    refund = refund, charge_denied = charge_denied, report = report, mark_debt = mark_debt,
    leases_end_at = leases_end_at, summarize = summarize, restore = restore,
    kept_until = kept_until, latest = latest, set_terms = set_terms, convert = convert,
  }
end
LOADERS[LEAKY] = LOADERS[TOKEN]
