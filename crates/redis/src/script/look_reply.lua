-- In place of `reply.lua` for inspections: also how long the state is, how long it lives,
-- and its beginning, where units stand that are held.
return {
  table.concat(replies),
  redis.call('STRLEN', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('GETRANGE', KEYS[1], 0, 5001),
}
