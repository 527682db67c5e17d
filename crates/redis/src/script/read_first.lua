-- Precedes the scripts in tests: a call fails if it accesses a key for the first time after it has
-- written. On a node of a Cluster, the first access to any key may fail the call (see `keys.lua`).
local redis = (function()
  local redis, known, has_written = redis, {}, false
  local WRITES = { SET = true, DEL = true, SETRANGE = true, PEXPIREAT = true }

  local function check(command, ...)
    local names = command == 'MGET' and { ... } or { (...) }
    for _, name in ipairs(names) do
      if not known[name] and (has_written or WRITES[command]) then
        error(command .. ' accesses a key for the first time, and may follow other writes')
      end
      known[name] = true
    end
    has_written = has_written or WRITES[command]
  end

  local function with_check(call)
    return function(...)
      check(...)
      return call(...)
    end
  end

  return { call = with_check(redis.call), pcall = with_check(redis.pcall) }
end)()
