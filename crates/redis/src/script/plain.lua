-- Decides requests that meet one limit each, a bucket or a window aligned to the clock, and take or
-- judge units. The same as `general.lua` does with them, in a fraction of the time: functions are
-- dear in a script, which makes them anew in every call.
--
-- KEYS     the key of each request
-- ARGV[1]  the limits, then the requests, packed (see `question.rs`)
-- Answers with the time and, for each request, what was remembered (7 bytes): of a bucket the moment
-- at which it is full again, of a window the units used in it. All ones ask for `general.lua`: the
-- limit has changed, or units of the key are reserved or leased, or beyond the limit, and then what
-- is stored begins with that.

local call, pack, read = redis.call, struct.pack, struct.unpack
local format, ceil = string.format, math.ceil
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local origin = 0

local FIXED_CLOCK = 1
local questions, position = ARGV[1], 2
-- Of each limit its kind, span and room, what an unused key has, what a unit adds to that, and of a
-- window its end.
local kinds, spans, rooms, fresh, units, ends = {}, {}, {}, {}, {}, {}
for i = 1, string.byte(questions) do
  kinds[i], spans[i], rooms[i], position = read('>BI6I7', questions, position)
  if kinds[i] == FIXED_CLOCK then
    fresh[i], units[i], ends[i] = 0, 1, now - now % spans[i] + spans[i]
  else
    fresh[i], units[i] = now, spans[i]
  end
end
local states = call('MGET', unpack(KEYS))
local words, answers, changed = {}, { pack('>I7', now) }, {}
for i = 1, #KEYS do
  local key, which, judged, taken = KEYS[i]
  which, judged, taken, position = read('>BI4I4', questions, position)
  local word, state = words[key], states[i]
  if not word then
    word = fresh[which]
    if state then
      local kind, at, was
      if #state == 12 then
        kind, at, was = read('>BI7I4', state)
      elseif #state == 14 then
        kind, at, was = read('>BI7I6', state)
      end
      if kind ~= kinds[which] then
        word = nil
      elseif kind == FIXED_CLOCK then
        if at > now then word = at == ends[which] and was <= rooms[which] and was or nil end
      elseif was ~= spans[which] or at > now + rooms[which] then
        word = nil
      elseif at > now then
        word = at
      end
    end
  elseif changed[key] and changed[key] ~= which then
    word = nil
  end
  if not word then
    answers[i + 1] = '\255\255\255\255\255\255\255'
  else
    answers[i + 1] = pack('>I7', word)
    local unit = units[which]
    if word - fresh[which] + judged * unit <= rooms[which] and taken > 0 then
      words[key], changed[key] = word + taken * unit, which
    end
  end
end
for key, which in pairs(changed) do
  local at, was = words[key], spans[which]
  if ends[which] then at, was = ends[which], at end
  call('SET', key, pack(was < 4294967296 and '>BI7I4' or '>BI7I6', kinds[which], at, was),
    'PXAT', format('%d', ceil(at / 1000) + origin))
end
return table.concat(answers)
