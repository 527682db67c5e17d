
-- Reservations that clients settle: a request is charged an estimate, and settled once, when its
-- cost is known. The charges and the caller's memo are stored under a key of their own: a byte that
-- no state begins with, the time (7), the number of charged lines (1), and for each its index in
-- the request (1), kind (1), segments (1), span (6), units (5), and a mark by which these units are
-- recognized later (7): a bucket's debt, a window's end, the number of a sliding window's segment.
-- Also undoes the charges of a round over several slots that has failed in one of them.
--
-- While a slot of a Cluster migrates, no call has both a counter and a new key of it. Then one call
-- decides and replies with the record, and another one stores it; one takes it, and others settle.
--
-- Loaded only by requests that need it, because functions cost time in a script.

-- How many newer entries of logs the refunds of this call may still rewrite, together: Redis does
-- nothing else meanwhile, for about 10 ms.
local newer_left = 10000

local function load_settlement()
  local RECORD, PART = 82, 21

  local function find_mark(a)
    if is_bucket(a.kind) then return a.at - now end
    return a.kind == LOG and 0 or a.at
  end

  -- Stores the record of a reservation for `lasts` microseconds.
  local function store(record, lasts)
    place = place + 1
    -- There is none yet. If this node cannot create the key, because its slot migrates, the call
    -- fails here, and not after it has removed a reservation that another request settles.
    call('GET', KEYS[place])
    records[KEYS[place]], record_ends[KEYS[place]] = record, milliseconds(now + lasts)
  end

  -- The charges of an allowed request, as a record without a memo.
  local function describe(lines)
    local parts, count = {}, 0
    for i, line in ipairs(lines) do
      if not line.denied and line.role ~= UNJUDGED then
        local a = line.account
        count = count + 1
        parts[count] = pack('>BBBI6I5I7', i, a.kind, a.segments, a.span, line.take, find_mark(a))
      end
    end
    return pack('>BI7B', RECORD, now, count) .. table.concat(parts)
  end

  -- Decides a request. If it is allowed, its record is stored for `lasts` microseconds, or is the
  -- last state of the reply if it `is_apart`.
  local function remember(lines, lasts, gives_way, is_apart, memo)
    local status = #replies + 1
    decide(lines, gives_way == 1)
    local record = replies[status] == ALLOWED and describe(lines)
    if is_apart == 1 then
      record = record or ''
      replies[#replies + 1] = pack('>I2', #record) .. record
    elseif record then
      store(record .. memo, lasts)
    else
      place = place + 1
    end
  end

  local function store_apart(record, lasts)
    store(record, lasts)
    reply(ALLOWED, {})
  end

  -- Removes the record of a reservation, and returns it without its memo; nil if there is none.
  -- Reads as GET does, but a former primary rejects it, which has no later reservations, instead of
  -- answering that there is none.
  local function take_record()
    place = place + 1
    local name = KEYS[place]
    local record = records[name]
    if record == nil then record = call('GETEX', name) end
    if not record or byte(record) ~= RECORD then return nil end
    records[name] = false
    return string.sub(record, 1, 9 + PART * byte(record, 9))
  end

  local function take_apart()
    local record = take_record()
    reply(record and ALLOWED or DENIED, { record or '' })
  end

  -- Refunds up to `units` of those that a log has counted at `at`; returns how many. All newer
  -- entries change as well, because each has the sum of those before it: none is refunded if these
  -- are more than `newer_left`.
  local function refund_entry(a, at, units)
    local log = ALGORITHMS[LOG]
    -- A log without units has no entries, but may have dead ones.
    if a.n == 0 then return 0 end
    local first = log.find_entry(a, a.dead, a.n, function(moment) return moment >= at end)
    local newer = log.find_last(a) - first
    if newer < 0 or newer > newer_left then return 0 end
    local found, sum = log.read_entry(a, first)
    local _, before = 0, a.base
    if first > a.dead then _, before = log.read_entry(a, first - 1) end
    local back = found == at and min(units, (sum - before) % WORD) or 0
    if back == 0 then return 0 end
    newer_left = newer_left - newer
    local changed, entries = log.read_entries(a, first), {}
    for from = 1, #changed, 11 do
      local moment, total = read('>I7I4', changed, from)
      entries[#entries + 1] = pack('>I7I4', moment, (total - back) % WORD)
    end
    local kept = string.sub(a.tail, 1, 11 * max(first - a.rows, 0))
    a.rows, a.tail = min(a.rows, first), kept .. table.concat(entries)
    a.used, a.sum = a.used - back, (a.sum - back) % WORD
    if a.used > 0 then log.end_at_units(a) else a.n = 0 end
    return back
  end

  -- Refunds up to `units` of a bucket. They refill in the order in which they were charged, at a
  -- price that may have changed since: then as if at the fastest of those that are known. Of a unit
  -- that has refilled in part, the rest is refunded, so nothing of it stays charged.
  local function refund_bucket(a, line, part, units)
    local fastest = min(part.span, a.span, line.span)
    if fastest == 0 then return 0 end
    local convert = ALGORITHMS[a.kind].convert
    local debt = min(convert(part.mark, part.span, a.span, 0), DEBT_MAX)
    local refilled = min(convert(max(now - part.at, 0), fastest, a.span, 1), DEBT_MAX)
    local left = min(debt - refilled, units * a.span, a.at - now)
    if left <= 0 then return 0 end
    a.at = a.at - left
    return ceil(left / a.span)
  end

  local function is_same_shape(a, part)
    return a.kind == part.kind
      and (is_bucket(a.kind) or a.span == part.span and a.segments == part.segments)
  end

  -- Refunds up to `units` that were charged as `part` says, as far as they still count; returns how
  -- many. None, if the limit has another shape now: which of its units these are is not known.
  local function refund_part(a, line, part, units)
    if not is_same_shape(a, part) then return 0 end
    local back = 0
    if is_bucket(a.kind) then
      back = refund_bucket(a, line, part, units)
      if back == 0 then return 0 end
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
    a.changed, a.raw = true, nil
    charge_others(a, -back)
    return back
  end

  -- What a charge at `at` left behind, as far as it follows from its time: the window or segment
  -- that it counted in, or the least debt of a bucket.
  local function mark_of(a, line, at)
    if is_bucket(a.kind) then return line.refund * line.span end
    if a.kind == SLIDING then return floor(at / line.span) end
    if a.kind == FIXED_CLOCK then return at - at % line.span + line.span end
    -- Windows that start with a request do not overlap.
    return a.at - line.span <= at and a.at or 0
  end

  -- Refunds what each line was charged at `at`, by a request that has failed meanwhile.
  local function undo(lines, at)
    for _, line in ipairs(lines) do
      local a, part = line.account, { at = at }
      part.kind, part.span, part.segments = line.kind, line.span, line.segments
      part.mark = mark_of(a, line, at)
      refund_part(a, line, part, line.refund)
    end
    reply(ALLOWED, {})
  end

  -- Charges as many of `units` as fit beside reservations; returns how many. If these are released,
  -- their units are charged as well, as far as they are among `units`.
  local function charge_excess(a, line, units)
    local room = max(remaining(a, line) - a.held - line.kept, 0)
    charge_denied(a, line, min(units, line.cap - line.kept))
    return min(room, units)
  end

  -- Charges each line its actual units in place of the reserved ones, if these still are reserved.
  -- The record is stored under the next key, unless it is part of the request.
  local function settle_reserved(lines, record)
    local states = {}
    if record == '' then record = take_record() end
    if not record then
      for i = 1, #lines do states[i] = '' end
      return reply(DENIED, states)
    end
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
      states[i] = pack('>I5I5', charged, max(remaining(a, line) - line.kept, 0))
    end
    reply(ALLOWED, states)
  end

  return {
    remember = remember,
    store = store_apart,
    take = take_apart,
    settle = settle_reserved,
    undo = undo,
  }
end
