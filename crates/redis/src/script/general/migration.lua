
-- Migration of accounts to a changed limit, or to another version of it on another instance.
--
-- Loaded only by requests that need it, because functions cost time in a script.

local function load_migration()
  -- The summary of an account that is migrated to another shape; nil if it has no units.
  local function summarize(a, units)
    if units == 0 then return nil end
    local kept, at = ALGORITHMS[a.kind].summarize(a, units)
    return { kind = a.kind, segments = a.segments, span = a.span, units = kept, at = at }
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

  local function copy(fields)
    local all = {}
    for name, value in pairs(fields) do all[name] = value end
    return all
  end

  -- The accounts that the present request has migrated.
  local migrated = {}

  -- Keeps an account as it was before it is migrated for the present request.
  local function keep_original(a)
    if a.original then return end
    a.original = copy(a)
    a.original.other = a.other and copy(a.other)
    a.changed = false
    migrated[#migrated + 1] = a
  end

  -- Undoes the migration of accounts that the request did not change, so that a peek or a denial
  -- under one version of a limit changes no answer under another one. Only the moment at which the
  -- units count as used under this one is kept, in the entry of the other shape: without it, each
  -- decision would count them as used now again, and no retry time would hold.
  local function undo_migrations()
    for _, a in ipairs(migrated) do
      local original, noted = a.original, a.noted
      if a.changed then
        a.original, a.noted = nil, nil
      else
        for name in pairs(a) do a[name] = nil end
        for name, value in pairs(original) do a[name] = value end
        if noted then a.other, a.redated, noted.is_newer = noted, true, true end
      end
    end
    migrated = {}
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
    if a.other and is_larger then hidden = take_hidden(a, line, units_of_other(a.other)) end
    if hidden > 0 then a.redated = true end
  end

  local function has_shape(kept, line)
    return kept and kept.kind == line.kind
      and (is_bucket(line.kind) or kept.span == line.span and kept.segments == line.segments)
  end

  local function restore(a, kept)
    begin(a, kept)
    ALGORITHMS[kept.kind].restore(a, kept)
  end

  -- Migrates an account to the shape of `line`. The number of units stays the same. An account of
  -- another shape is restored from what was kept of this shape; otherwise all used units count as
  -- used now, up to the new capacity: those of the other shape, if it is newer. A smaller bucket
  -- counts no more than its own capacity, so units that the other shape has counted beyond that
  -- count as used now as well.
  local function migrate(a, line)
    local kind, other = line.kind, a.other
    if a.kind == kind and is_bucket(kind) and not a.is_fresh then return migrate_bucket(a, line) end
    local known = has_shape(other, line) and other
      or has_shape(a.expired_other, line) and a.expired_other
    local is_same = a.kind == kind and a.span == line.span and a.segments == line.segments
    if is_same and not (known and a.is_fresh) then return end
    local newest = not known and (other or a.expired_other)
    if newest and newest.is_newer then
      keep_original(a)
      restore(a, newest)
      other = nil
    end
    local units = ALGORITHMS[a.kind].used(a)
    local kept, new = summarize(a, units), 0
    if kept or known then keep_original(a) end
    a.other, a.expired_other, a.mark = nil, nil, nil
    begin(a, line)
    if known then
      ALGORITHMS[kind].restore(a, known)
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
    a.other, a.raw = kept or known ~= other and other or nil, nil
    a.is_fresh = not known and new == 0
  end

  return { migrate = migrate, undo_migrations = undo_migrations }
end
