-- Decides requests with one limit each, a bucket or a window aligned to the clock, which take, peek
-- or lease units. It decides as the general script does, in a fraction of the time: it has no
-- functions, which a script would create in every call.
--
-- KEYS     the key of each request
-- ARGV[1]  the limits, then the requests, packed (see `script_request.rs`)
-- Replies with the time and, for each request, the state before it (7 bytes): the time at which a
-- bucket is full again, or the units used in a window, leases included; for a request that leases,
-- also the units granted (5) and the lifetime (5). A state of all ones means that the key needs the
-- general script: the limit has changed, units are reserved or beyond the limit, or a lease
-- expired.

local call, pack, read, byte, min = redis.call, struct.pack, struct.unpack, string.byte, math.min
local floor, ceil, max = math.floor, math.ceil, math.max

-- As in the general script: the kind of a window, the first byte of a state with holds, the bytes
-- of a hold, the longest lifetime of a lease, and the most leases of a key.
local FIXED_CLOCK, HELD, HOLD, LEASE_LASTS, LEASES_MAX = 1, 128, 20, 10000000, 100

local questions = ARGV[1]
local limits, plain, position = read('>BB', questions)
-- Fast path for a single request on a key without holds: the same without tables, which are slow.
if #KEYS == 1 and plain == 1 then
  local key, state = KEYS[1], call('GET', KEYS[1])
  local kind, span, room, _, judged, taken = read('>BI6I7BI4I4', questions, 3)
  local word, add, fresh, ends = now, span, now
  if kind == FIXED_CLOCK then word, add, fresh, ends = 0, 1, 0, now - now % span + span end
  local is_plain = not state
  if state then
    local known, at, was, its, its_cap
    if #state ~= 18 then
      -- For the general script.
    elseif ends then
      known, at, was, its = read('>BI7I4I6', state)
      is_plain = known == kind and (at <= now or at == ends and its == span and was <= room)
      if at > now then word = was end
    else
      known, at, its, its_cap = read('>BI7I6I4', state)
      is_plain = known == kind and its == span and at <= now + min(room, its_cap * span)
      if at > now then word = at end
    end
  end
  if is_plain then
    local answer = pack('>I7I7', now, word)
    if word - fresh + judged * add <= room and taken > 0 then
      local at = word + taken * add
      if ends then
        state, at = pack('>BI7I4I6', kind, ends, at, span), ends
      else
        state = pack('>BI7I6I4', kind, at, span, room / span)
      end
      call('SET', key, state, 'PXAT', string.format('%d', ceil(at / 1000) + origin))
    end
    return answer
  end
end
-- For each limit its kind, span and room, the state of an unused key, what a unit adds to it, and
-- for a window its end.
local kinds, spans, rooms, fresh, adds, ends = {}, {}, {}, {}, {}, {}
for i = 1, limits do
  kinds[i], spans[i], rooms[i], position = read('>BI6I7', questions, position)
  if kinds[i] == FIXED_CLOCK then
    fresh[i], adds[i], ends[i] = 0, 1, now - now % spans[i] + spans[i]
  else
    fresh[i], adds[i] = now, spans[i]
  end
end
local states = {}
if has_undeclared then
  for i = 1, #KEYS do states[i] = call('GET', KEYS[i]) end
else
  states = call('MGET', unpack(KEYS))
end
local answers, words, changed = { pack('>I7', now) }, {}, {}
-- For keys with holds: the leases by name, their number and their sum.
local leases, counts, leased = {}, {}, {}
for i = 1, #KEYS do
  local key, which, judged, taken = KEYS[i]
  which, judged, taken, position = read('>BI4I4', questions, position)
  local word, state, out = words[key], states[i], leased[key] or 0
  local full_at = word or now
  if not word then
    word = fresh[which]
    if state then
      local kind, at, was, its, its_cap
      if #state > 18 then
        local last = byte(state) == HELD and 2 + HOLD * byte(state, 2) or 0
        local held, count = {}, 0
        out = 0
        for from = 3, last, HOLD do
          local id, units, till = read('>c8I5I7', state, from)
          local first = byte(id)
          local is_lease = first > 127 and first < 192
          local latest = min(now + LEASE_LASTS, ends[which] or till)
          if not is_lease or till <= now or till > latest then word = nil end
          held[id], count, out = { units, till }, count + 1, out + units
        end
        if not word then
          out = 0
        elseif last > 0 then
          leases[key], counts[key], leased[key] = held, count, out
        end
        state = string.sub(state, last + 1)
      end
      if #state ~= 18 then
        -- For the general script, or empty.
      elseif ends[which] then
        kind, at, was, its = read('>BI7I4I6', state)
      else
        kind, at, its, its_cap = read('>BI7I6I4', state)
      end
      if not word then
        -- For the general script.
      elseif state == '' then
        -- Only leases are stored, so the rest is empty; they may be of a previous limit.
      elseif kind ~= kinds[which] then
        word = nil
      elseif kind == FIXED_CLOCK then
        local is_same = at == ends[which] and its == spans[which] and was <= rooms[which]
        if at > now then word = is_same and was or nil end
      elseif its ~= spans[which] or at > now + min(rooms[which], its_cap * its) then
        word = nil
      else
        full_at = at
        if at > now then word = at end
      end
    end
  elseif changed[key] and changed[key] ~= which then
    word = nil
  end
  local add, room, id, lasts, spent, owed, want, least, fresh_id = adds[which], rooms[which]
  -- Leased units beyond the capacity of a bucket, which a larger limit has granted, are for the
  -- general script.
  if word and not ends[which] and word - fresh[which] + out * add > room then word = nil end
  if i > plain then
    id, lasts, spent, owed, want, least, fresh_id, position =
      read('>c8I5I5I7I5I5c8', questions, position)
    local mine = word and leases[key] and leases[key][id]
    if mine then
      out = out - mine[1]
      local units = min(spent, mine[1])
      if ends[which] then
        word = word + units
      else
        -- As of when they were spent, as in the general script.
        word = max(full_at + units * add, now + min(owed, units * add))
      end
      leases[key][id], counts[key], leased[key] = nil, counts[key] - 1, out
      words[key], changed[key] = word, which
    end
    -- Granted by a call whose reply was lost: nothing of it was spent.
    local unknown = word and leases[key] and leases[key][fresh_id]
    if unknown then
      out = out - unknown[1]
      leases[key][fresh_id], counts[key], leased[key] = nil, counts[key] - 1, out
      words[key], changed[key] = word, which
    end
  end
  if not word then
    answers[i + 1] = '\255\255\255\255\255\255\255'
    if id then answers[i + 1] = answers[i + 1] .. pack('>I5I5', 0, 0) end
  else
    local answer, granted = pack('>I7', word + out * add), 0
    local fits = judged > 0 and word - fresh[which] + (judged + out) * add <= room
    if fits and taken > 0 then
      word = word + taken * add
      words[key], changed[key] = word, which
    end
    if id then
      lasts = min(lasts, (ends[which] or now + lasts) - now)
      if fits and (counts[key] or 0) < LEASES_MAX then
        granted = min(want, floor((floor((room - word + fresh[which]) / add) - out) / 4))
        if granted < least then granted = 0 end
      end
      if granted > 0 then
        leases[key] = leases[key] or {}
        leases[key][fresh_id] = { granted, now + lasts }
        counts[key], leased[key] = (counts[key] or 0) + 1, out + granted
        words[key], changed[key] = word, which
      end
      answer = answer .. pack('>I5I5', granted, lasts)
    end
    answers[i + 1] = answer
  end
end
local function ends_first(one, other) return one[2] < other[2] end
for key, which in pairs(changed) do
  local at, span, state, held = words[key], spans[which], '', (counts[key] or 0) > 0
  if not ends[which] then
    -- A full bucket keeps the time and the capacity of the limit that granted what is leased.
    if at > now or held and span > 0 then
      state = pack('>BI7I6I4', kinds[which], at, span, rooms[which] / span)
    end
  else
    if at > 0 then state = pack('>BI7I4I6', kinds[which], ends[which], at, span) end
    at = ends[which]
  end
  if held then
    local all = {}
    for id, one in pairs(leases[key]) do
      state = pack('>c8I5I7', id, one[1], one[2]) .. state
      all[#all + 1] = one
    end
    -- A lease that expires unreported is charged as of its end.
    if not ends[which] then
      if #all > 1 then table.sort(all, ends_first) end
      for _, one in ipairs(all) do at = max(at, one[2]) + one[1] * span end
    end
    state = string.char(HELD, counts[key]) .. state
  end
  if state == '' then
    call('DEL', key)
  else
    call('SET', key, state, 'PXAT', string.format('%d', ceil(at / 1000) + origin))
  end
end
return table.concat(answers)
