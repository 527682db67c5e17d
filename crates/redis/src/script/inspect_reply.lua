-- Replaces `reply.lua` for inspections: also the size of the state, its lifetime, and its
-- beginning, which contains the held units.
return {
  table.concat(replies),
  redis.call('STRLEN', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('GETRANGE', KEYS[1], 0, 5101),
}
