package rabbitmq

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

var diedAt = time.Date(2026, 11, 23, 2, 41, 48, 0, time.UTC)

func death(queue, reason string, count int64) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": diedAt, "exchange": "",
		"routing-keys": []any{queue}}
}

// A header that anybody can write is read without trust.
func TestHostileDeaths(t *testing.T) {
	for name, raw := range map[string]any{
		"text": "x", "empty list": []any{}, "list of texts": []any{"x"}, "nil": nil,
		"no queue": []any{amqp.Table{"reason": "expired", "count": int64(1)}},
		"no count": []any{amqp.Table{"queue": "q", "reason": "expired"}},
		"negative": []any{amqp.Table{"queue": "q", "reason": "expired", "count": int64(-1)}},
	} {
		_, err := readHistory(amqp.Table{"x-death": raw})
		require.ErrorContains(t, err, "x-death", name)
	}
	_, err := readHistory(nil)
	require.ErrorIs(t, err, errNoDeath)
	var many []any
	for range 1000 {
		many = append(many, death("q\xff", "expired", 1))
	}
	l, err := readHistory(amqp.Table{"x-death": many, headerRetries: "x", headerRetriedAt: int64(-5)})
	require.NoError(t, err)
	require.Len(t, l.deaths, maxDeaths)
	require.Equal(t, "q\uFFFD", l.last.Queue)
}

// The latest death counts. Its time is known unless the message died there before.
func TestLastDeath(t *testing.T) {
	l, err := readHistory(amqp.Table{"x-death": []any{death("b", "rejected", 1), death("a", "expired", 2)}})
	require.NoError(t, err)
	require.Equal(t, "b", l.last.Queue)
	require.EqualValues(t, 3, l.count)
	require.Equal(t, diedAt, l.at)

	l, err = readHistory(amqp.Table{"x-death": []any{death("a", "expired", 2)}})
	require.NoError(t, err)
	require.True(t, l.at.IsZero(), "the header has the time of the first death")

	// RabbitMQ 4 starts x-death afresh when a message is published again.
	l, err = readHistory(amqp.Table{"x-death": []any{death("a", "expired", 1)}, headerRetries: int64(3),
		headerRetriedAt: diedAt.Add(-time.Minute).UnixMilli()})
	require.NoError(t, err)
	require.EqualValues(t, 4, l.count)
	require.Equal(t, diedAt, l.at)
	l, err = readHistory(amqp.Table{"x-death": []any{death("a", "expired", 1)}, headerRetries: int64(3),
		headerRetriedAt: diedAt.Add(time.Minute).UnixMilli()})
	require.NoError(t, err)
	require.True(t, l.at.IsZero())
}

func TestRetryRules(t *testing.T) {
	rules := []RetryRule{{Reason: ReasonExpired, Type: "report", MaxDeaths: 1}, {Reason: ReasonExpired, MaxDeaths: 3},
		{Queue: "b", MaxDeaths: 2}}
	for _, c := range []struct {
		queue, reason, typ string
		count              int64
		want               bool
	}{
		{"a", "expired", "report", 1, true}, {"a", "expired", "report", 2, false}, {"a", "expired", "mail", 3, true},
		{"a", "expired", "mail", 4, false}, {"a", "rejected", "mail", 1, false}, {"b", "rejected", "mail", 2, true},
		{"b", "rejected", "mail", 3, false},
	} {
		l, err := readHistory(amqp.Table{"x-death": []any{death(c.queue, c.reason, c.count)}})
		require.NoError(t, err)
		require.Equal(t, c.want, retries(rules, l, c.typ), c)
	}
}

// A message returns with everything that it had.
func TestPropertiesAreRetained(t *testing.T) {
	d := &amqp.Delivery{
		Headers: amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "reason": "expired", "count": int64(1),
			"original-expiration": "60000"}}, "trace": "abc", "CC": []any{"elsewhere"}},
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 7, CorrelationId: "c",
		ReplyTo: "r", MessageId: "m",
		Timestamp: diedAt, Type: "t", UserId: "alice", AppId: "app", Body: []byte("body"),
	}
	l, err := readHistory(d.Headers)
	require.NoError(t, err)
	p := again(d, l, diedAt.Add(time.Second))
	require.Equal(t, amqp.Publishing{
		Headers: amqp.Table{"x-death": d.Headers["x-death"], "trace": "abc", headerRetries: int64(1),
			headerRetriedAt: diedAt.Add(time.Second).UnixMilli(), "x-sloengine-user-id": "alice"},
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7, CorrelationId: "c",
		ReplyTo: "r", MessageId: "m",
		Expiration: "60000", Timestamp: diedAt, Type: "t", AppId: "app", Body: []byte("body"),
	}, p)
	require.Contains(t, d.Headers, "CC", "the delivery is unchanged")
}
