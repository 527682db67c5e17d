-- In place of `calls.lua` when somebody only looks: what the script reads is Redis's, what it
-- writes is kept here and forgotten with the call. So a look settles and converts a state in the same
-- way as a decision, and changes nothing: not even if the looker's rules are not those in force.

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
  elseif command == 'APPEND' then
    overlay[name] = now .. a
  elseif command == 'SETRANGE' then
    overlay[name] = string.sub(now, 1, a) .. b .. string.sub(now, a + #b + 1)
  end
end

