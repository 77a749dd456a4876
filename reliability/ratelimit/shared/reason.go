package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
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
	reasonCrowded            // too many calls hang already
	reasons
)

var reasonNames = [reasons]string{"other", "timeout", "connection", "read_only", "out_of_memory", "unavailable",
	"denied", "bad_answer", "crowded"}

func (r reason) String() string { return reasonNames[r] }

var (
	errAnswer  = errors.New("unexpected answer")
	errCrowded = fmt.Errorf("%d calls to redis are already blocked", hanging)
)

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
	var answer redis.Error
	switch {
	case errors.Is(err, errCrowded):
		return reasonCrowded
	case errors.Is(err, errAnswer):
		return reasonAnswer
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout):
		return reasonTimeout
	case errors.As(err, &network):
		if network.Timeout() {
			return reasonTimeout
		}
		return reasonConnection
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, redis.ErrClosed):
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

func isNoScript(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.HasPrefix(err.Error(), "NOSCRIPT")
}
