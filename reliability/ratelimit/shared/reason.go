package shared

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/sloengine/sloengine/reliability/redisconn"
)

// reason is why a call to Redis failed: the label of sloengine_redis_errors_total.
type reason uint8

const (
	reasonOther       reason = iota
	reasonTimeout            // no answer in time: paused, overloaded, far away
	reasonConnection         // refused, reset, closed, name not found
	reasonReadOnly           // a replica, after a failover
	reasonMemory             // maxmemory is reached and nothing may be evicted
	reasonUnavailable        // loading, busy with a script, cluster down
	reasonDenied             // password, user or permission
	reasonAnswer             // an answer that makes no sense
	reasons
)

var reasonNames = [reasons]string{"other", "timeout", "connection", "read_only", "out_of_memory", "unavailable",
	"denied", "bad_answer"}

func (r reason) String() string { return reasonNames[r] }

var errAnswer = errors.New("unexpected answer")

// redisCodes are looked for anywhere in an error of Redis: before version 7 it wraps the
// errors of a script's commands into a text of its own.
var redisCodes = []struct {
	code string
	is   reason
}{
	{"READONLY", reasonReadOnly},
	{"OOM ", reasonMemory},
	{"NOAUTH", reasonDenied}, {"WRONGPASS", reasonDenied}, {"NOPERM", reasonDenied},
	{"LOADING", reasonUnavailable}, {"BUSY", reasonUnavailable}, {"MASTERDOWN", reasonUnavailable},
	{"CLUSTERDOWN", reasonUnavailable}, {"TRYAGAIN", reasonUnavailable}, {"MISCONF", reasonUnavailable},
	{"NOREPLICAS", reasonUnavailable},
}

func reasonOf(err error) reason {
	var network net.Error
	var answer redisconn.Error
	switch {
	case errors.Is(err, errAnswer):
		return reasonAnswer
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout
	case errors.As(err, &network):
		if network.Timeout() {
			return reasonTimeout
		}
		return reasonConnection
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, redisconn.ErrClosed):
		return reasonConnection
	case errors.As(err, &answer):
		for _, c := range redisCodes {
			if strings.Contains(err.Error(), c.code) {
				return c.is
			}
		}
	}
	return reasonOther
}
