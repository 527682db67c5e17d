-- The time of the decision, in microseconds since 1970: Redis's own clock, so that all instances
-- agree on the time.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- Added to the expiry of keys, in milliseconds.
local origin = 0
-- The first argument behind the requests and the time.
local behind = 2
