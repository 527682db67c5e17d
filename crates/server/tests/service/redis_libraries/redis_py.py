"""What redis-py, which knows nothing of us, sees of a service at the port in the arguments.

The service has the rule `user`, 3/day, of the domain `shop`, and two passwords. It is started again
when this prints `restart`, and has been when a line arrives.
"""

import sys

import redis

PORT, PASSWORD, ADMIN_PASSWORD = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def connect(**more):
    return redis.Redis(port=PORT, password=PASSWORD, socket_timeout=60, **more)


def error_of(kind, call):
    try:
        answer = call()
    except kind as error:
        assert type(error) is kind, error
        return str(error)
    raise AssertionError(f"no error, but {answer}")


def check(protocol):
    client = connect(protocol=protocol, client_name=f"v{protocol}")
    assert client.ping() is True
    assert client.client_getname() in (b"v%d" % protocol, f"v{protocol}")
    assert client.execute_command("SELECT", 0) in (True, b"OK")
    described = client.command()
    assert described["ping"]["arity"] == -1, described
    assert described["cl.throttle"]["first_key_pos"] == 1, described
    assert client.command_count() == len(described)
    hello = client.execute_command("HELLO", protocol)
    if protocol == 2:
        hello = dict(zip(hello[::2], hello[1::2]))
    assert hello[b"server"] == b"tollgate" and hello[b"proto"] == protocol, hello
    assert client.config_get("databases") == {"databases": "1"}
    key = f"py:{protocol}"
    throttled = [client.execute_command("CL.THROTTLE", key, 1, 1, 3600) for _ in range(3)]
    assert [reply[0] for reply in throttled] == [0, 0, 1], throttled
    user = f"py{protocol}"
    checked = client.execute_command("TG.CHECK", "shop", 1, "user", user)
    assert checked[:3] == [0, 3, 2] and checked[6] == b"user", checked

    # A pipeline, with an error in its midst that concerns no other command.
    pipeline = client.pipeline(transaction=False)
    for _ in range(3):
        pipeline.execute_command("TG.CHECK", "shop", 1, "user", user)
    pipeline.execute_command("GET", "key")
    pipeline.execute_command("TG.PEEK", "shop", 1, "user", user)
    replies = pipeline.execute(raise_on_error=False)
    assert [reply[0] for reply in replies[:3]] == [0, 0, 1], replies
    assert type(replies[3]) is redis.ResponseError, replies
    assert replies[4][2] == 0, replies
    # Pipelines of redis-py are transactions unless they are told otherwise.
    pipeline = client.pipeline()
    for _ in range(3):
        pipeline.execute_command("CL.THROTTLE", f"{key}:transaction", 1, 1, 3600)
    pipeline.execute_command("TG.PEEK", "shop", 1, "user", user)
    replies = pipeline.execute()
    assert [reply[0] for reply in replies] == [0, 0, 1, 1], replies
    # A command that is wrong aborts all of them.
    pipeline = client.pipeline()
    pipeline.execute_command("CL.THROTTLE", f"{key}:aborted", 1, 1, 3600)
    pipeline.execute_command("GET", "key")
    error_of(redis.ResponseError, pipeline.execute)
    peeked = client.execute_command("CL.THROTTLE", f"{key}:aborted", 1, 1, 3600, 0)
    assert peeked[2] == 2, peeked

    for words, kind, expected in [
        (("GET", "key"), redis.ResponseError, "unknown command 'GET'"),
        (("CL.THROTTLE", "key"), redis.ResponseError, "wrong number of arguments"),
        (("TG.CHECK", "shop", "x", "user", "ann"), redis.ResponseError, "cost"),
        (("TG.RESET", "shop", "user", "ann"), redis.exceptions.NoPermissionError, "admin"),
    ]:
        found = error_of(kind, lambda: client.execute_command(*words))
        assert expected in found, (words, found)
    admin = redis.Redis(port=PORT, username="admin", password=ADMIN_PASSWORD, protocol=protocol)
    assert admin.execute_command("TG.RESET", "shop", "user", user)[2] == 3
    return client


for wrong, kind in [
    ({"password": "wrong"}, redis.AuthenticationError),
    ({}, redis.AuthenticationError),
]:
    error_of(kind, redis.Redis(port=PORT, **wrong).ping)

clients = [check(protocol) for protocol in (2, 3)]
print("restart", flush=True)
assert sys.stdin.readline() == "restarted\n"
for client in clients:
    # By itself: the connection of the pool has ended.
    assert client.execute_command("TG.CHECK", "shop", 1, "user", "new")[0] == 0
print("done", flush=True)
