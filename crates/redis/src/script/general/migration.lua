
-- Migration of accounts to a changed limit, or to another version of it on another instance.
--
-- Loaded only by requests that need it, because functions cost time in a script.

local function load_migration()
  local function copy(fields)
    local all = {}
    for name, value in pairs(fields) do all[name] = value end
    return all
  end

  -- The summary of an account that is migrated to another shape; nil if it has no units.
  local function summarize(a, units)
    if units == 0 then return nil end
    local kept, at = ALGORITHMS[a.kind].summarize(a, units)
    return { kind = a.kind, segments = a.segments, span = a.span, units = kept, at = at }
  end

  -- The same, with the units that it had no room for.
  local function summarize_all(a, units)
    local kept, hidden = summarize(a, units), units_of_hidden(a)
    if hidden == 0 then return kept end
    if not kept then return copy(a.hidden) end
    kept.units, kept.at = min(kept.units + hidden, USED_MAX), max(kept.at, a.hidden.at)
    return kept
  end

  -- Charges, as used now, the units that another shape has counted and a smaller bucket had no room
  -- for; returns how many.
  local function take_hidden(a, line, units)
    local hidden = min(units, line.cap) - ALGORITHMS[a.kind].used(a)
    if hidden <= 0 then return 0 end
    ALGORITHMS[a.kind].take(a, line, hidden)
    a.raw = nil
    return hidden
  end

  local function copy_list(list)
    if not list then return false end
    local all = {}
    for i, one in ipairs(list) do all[i] = copy(one) end
    return all
  end

  -- Of the shapes that are noted only, or of those that were charged, the one that ends first, but
  -- not the one that was used last.
  local function find_dropped(all, used_last, is_noted)
    local dropped, soonest = 1, math.huge
    for i, kept in ipairs(all) do
      local is_one = (kept.is_newer or false) == is_noted and kept ~= used_last
      local ends = is_one and kept_until(kept) or math.huge
      if ends < soonest then dropped, soonest = i, ends end
    end
    return dropped
  end

  -- Drops the shapes beyond `OTHERS_MAX`, of which one more may be noted only.
  local function drop_excess(all, used_last)
    local noted = 0
    for _, kept in ipairs(all) do noted = noted + (kept.is_newer and 1 or 0) end
    while #all > OTHERS_MAX do
      local is_noted = #all - noted <= OTHERS_MAX
      if is_noted and noted == 1 and #all == OTHERS_MAX + 1 then return end
      table.remove(all, find_dropped(all, used_last, is_noted))
      if is_noted then noted = noted - 1 end
    end
  end

  -- The other shapes of an account, less the one that is `left_out`, with `first` in front.
  local function with_first(list, first, left_out)
    local all = {}
    if first then all[1] = first end
    for _, kept in ipairs(list or {}) do
      if kept ~= left_out then all[#all + 1] = kept end
    end
    drop_excess(all, first)
    return all[1] and all or false
  end

  -- The accounts that the present request has migrated.
  local migrated = {}

  -- Keeps an account as it was before it is migrated for the present request.
  local function keep_original(a)
    if a.original then return end
    a.original = copy(a)
    a.original.others = copy_list(a.others)
    a.changed = false
    migrated[#migrated + 1] = a
  end

  local function has_shape(kept, line)
    return kept.kind == line.kind
      and (is_bucket(line.kind) or kept.span == line.span and kept.segments == line.segments)
  end

  local function find_shape(list, line)
    for _, kept in ipairs(list or {}) do
      if has_shape(kept, line) then return kept end
    end
  end

  local function find_newest(list)
    for _, kept in ipairs(list or {}) do
      if kept.is_newer then return kept end
    end
  end

  -- Undoes the migration of accounts that the request did not change, so that a peek or a denial
  -- under one version of a limit changes no answer under another one. Only the moment at which the
  -- units count as used under this one is kept, in the entry of the other shape: without it, each
  -- decision would count them as used now again, and no retry time would hold. It drops nothing
  -- that another shape has counted, but it may drop what was noted for another one.
  local function undo_migrations()
    for _, a in ipairs(migrated) do
      local original, noted = a.original, a.noted
      if a.changed then
        a.original, a.noted = nil, nil
      else
        for name in pairs(a) do a[name] = nil end
        for name, value in pairs(original) do a[name] = value end
        if noted then
          noted.is_newer = true
          a.others = with_first(a.others, noted, find_shape(a.others, noted))
          a.redated = true
        end
      end
    end
    migrated = {}
  end

  -- The most units that another shape has counted.
  local function most_of_others(a)
    local most = 0
    for _, kept in ipairs(a.others or {}) do most = max(most, units_of_other(kept)) end
    return most
  end

  -- Migrates the debt of a bucket to another version of its limit. The price of its units changes
  -- now, and if the capacity is smaller, only when it charges.
  local function migrate_bucket(a, line)
    local is_larger, hidden = line.cap > a.cap, 0
    local is_debt = line.cap >= a.cap and line.span > 0 and a.at > now and not a.mark
    if is_debt and line.span ~= a.span then
      ALGORITHMS[a.kind].set_terms(a, line)
      if a.span == line.span then a.redated = true end
    end
    if a.others and is_larger then hidden = take_hidden(a, line, most_of_others(a)) end
    if hidden > 0 then a.redated = true end
  end

  local function restore(a, kept)
    begin(a, kept)
    ALGORITHMS[kept.kind].restore(a, kept)
  end

  -- Gives a window those of its hidden units for which a larger version of its limit has room;
  -- returns whether there are any.
  local function migrate_hidden(a, line)
    local hidden = a.hidden
    if not hidden or line.cap <= hidden.cap or units_of_hidden(a) == 0 then return false end
    local given = min(hidden.units, line.cap - hidden.cap)
    ALGORITHMS[a.kind].settle(a, line)
    ALGORITHMS[a.kind].take(a, line, given)
    hidden = copy(hidden)
    hidden.cap, hidden.units = line.cap, hidden.units - given
    a.hidden, a.raw, a.redated, a.is_fresh = hidden, nil, true, false
    return true
  end

  -- The units that an account of another shape passes on to one that is not known yet: with those
  -- that it had no room for. A bucket passes on no more than it holds: what others have counted
  -- beside it includes what it has refilled.
  local function count_used(a, newest)
    local hidden = units_of_hidden(a)
    if newest then
      hidden = units_of_hidden(newest)
      restore(a, newest)
    end
    return ALGORITHMS[a.kind].used(a) + hidden
  end

  -- Migrates an account to the shape of `line`. The number of units stays the same. An account of
  -- another shape is restored from what was kept of this shape; otherwise all used units count as
  -- used now, up to the new capacity: those of the other shape, if it is newer. The rest is hidden.
  local function migrate(a, line)
    local kind = line.kind
    if a.kind == kind and is_bucket(kind) and not a.is_fresh then return migrate_bucket(a, line) end
    local known = find_shape(a.others, line) or find_shape(a.expired_others, line)
    local is_same = a.kind == kind and a.span == line.span and a.segments == line.segments
    if is_same and not (known and a.is_fresh) then
      migrate_hidden(a, line)
      return
    end
    local newest = not known and (find_newest(a.others) or find_newest(a.expired_others))
    local kept, new = summarize_all(a, ALGORITHMS[a.kind].used(a)), 0
    if kept or known or newest or a.others then keep_original(a) end
    local units = count_used(a, newest)
    a.expired_others, a.mark, a.hidden = false, nil, false
    local others = with_first(a.others, kept, known)
    begin(a, line)
    if known then
      ALGORITHMS[kind].restore(a, known)
      a.hidden = known.hidden
      if is_bucket(kind) and known.units < line.cap then new = take_hidden(a, line, units) end
    elseif units > 0 then
      new = min(units, line.cap)
      ALGORITHMS[kind].take(a, line, new)
    end
    if new > 0 then
      a.noted = summarize(a, new)
    elseif units > 0 and not known then
      -- A limit of 0 units: there are none to count as used.
      a.noted = { kind = kind, segments = a.segments, span = a.span, units = 0, at = now }
    end
    if not known and not is_bucket(kind) and units > new then
      local at = new > 0 and a.noted.at or ALGORITHMS[kind].latest(line)
      a.hidden = { kind = kind, segments = a.segments, span = a.span, cap = line.cap, at = at }
      a.hidden.units, a.noted.hidden = min(units - new, USED_MAX), a.hidden
    end
    a.others, a.raw = others, nil
    a.is_fresh = not known and new == 0
    if known and migrate_hidden(a, line) then
      a.noted = summarize(a, ALGORITHMS[kind].used(a))
      a.noted.hidden = a.hidden
    end
  end

  return { migrate = migrate, undo_migrations = undo_migrations }
end
