-- The moment of the decision, in microseconds since 1970: Redis's own clock, so that no two
-- instances disagree about the time.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- What is added to the time at which a key expires, in milliseconds.
local origin = 0
