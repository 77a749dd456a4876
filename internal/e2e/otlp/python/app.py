"""A web shop that counts its own requests. It knows no OpenTelemetry: opentelemetry-instrument does."""

import json
import signal
import sys
import threading
import time
from collections import Counter

from flask import Flask, request
from werkzeug.serving import WSGIRequestHandler, make_server

app = Flask(__name__)
counts = Counter()
lock = threading.Lock()


@app.after_request
def count(response):
    route = request.url_rule.rule if request.url_rule else ""
    minute = int(time.time()) // 60 * 60
    with lock:
        counts[f"{minute} {request.method} {route} {response.status_code}"] += 1
    return response


@app.get("/items")
def items():
    return ["cup", "plate"]


@app.get("/items/<int:item>")
def item(item):
    return ({"item": item}, 200) if item < 50 else ({}, 404)


@app.post("/orders")
def order():
    if request.args.get("fail"):
        raise RuntimeError("out of stock")
    return {}, 201


@app.get("/broken")
def broken():
    return {}, 503


WSGIRequestHandler.protocol_version = "HTTP/1.1"
WSGIRequestHandler.log_request = lambda *_: None
server = make_server("127.0.0.1", 0, app, threaded=True)
server.daemon_threads = True
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print(json.dumps({"port": server.port}), flush=True)
server.serve_forever()
print(json.dumps({"counts": counts}), flush=True)
sys.exit()  # the SDK sends what it still has
