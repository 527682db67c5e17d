local call, try_call = redis.call, redis.pcall
