-- Stands before `general.lua` when somebody only looks: what the script reads is Redis's, what it
-- writes is kept here and forgotten with the call. So a look settles and converts a state in the same
-- way as a decision, and changes nothing: not even if the looker's rules are not those in force.

local kept = {}

local function text(name)
  if kept[name] == nil then kept[name] = redis.call('GET', name) end
  return kept[name]
end

local function looking(command, name, a, b)
  if command == 'GET' then return text(name) end
  local now = text(name) or ''
  if command == 'STRLEN' then return #now end
  if command == 'GETRANGE' then return string.sub(now, a + 1, b < 0 and b or b + 1) end
  if command == 'SET' then
    kept[name] = a
  elseif command == 'DEL' then
    kept[name] = false
  elseif command == 'APPEND' then
    kept[name] = now .. a
  elseif command == 'SETRANGE' then
    kept[name] = string.sub(now, 1, a) .. b .. string.sub(now, a + #b + 1)
  end
end

