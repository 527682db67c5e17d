-- Replaces `calls.lua` for inspections: the script reads from Redis, and its writes stay in this
-- overlay until the call ends. So an inspection settles and migrates a state as a decision does,
-- and changes nothing, even if its rules are not those in effect.

local overlay = {}

local function text(name)
  if overlay[name] == nil then overlay[name] = redis.call('GET', name) end
  return overlay[name]
end

local function call(command, name, a, b)
  if command == 'GET' then return text(name) end
  local now = text(name) or ''
  if command == 'STRLEN' then return #now end
  if command == 'GETRANGE' then return string.sub(now, a + 1, b < 0 and b or b + 1) end
  if command == 'SET' then
    overlay[name] = a
  elseif command == 'DEL' then
    overlay[name] = false
  elseif command == 'SETRANGE' then
    overlay[name] = string.sub(now, 1, a) .. b .. string.sub(now, a + #b + 1)
  end
end

local try_call = call

