package relay

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

// taken is a message as the other side has it.
type taken struct{ id, key, trace, payload string }

// target is a broker of one of the kinds that the relay publishes to.
type target struct {
	publisher func(t *testing.T, to place) Publisher
	taken     func(t *testing.T) []taken // those of the topic "orders", in order per key
	poison    func(m *Message)           // makes a message one that this broker refuses
	proxy     *nettest.Proxy             // nil: without
}

// place is where a publisher of a test connects to.
type place int

const (
	direct place = iota
	proxied
	nowhere
	wrongPassword
)

var serial atomic.Int64

// row is a message as the relay makes it.
func row(key, payload string) *Message {
	id := fmt.Sprint("row-", serial.Add(1))
	r := &outbox.Row{ID: serial.Load(), CreatedAt: time.Unix(1_700_000_000, 0), IdempotencyKey: id, EventType: "created",
		AggregateID: "7", Topic: "orders", Key: key, Payload: []byte(payload)}
	return &Message{Row: r, Headers: []Header{{Name: "traceparent", Value: "00-abc-def-01"},
		{Name: HeaderIdempotencyKey, Value: id}, {Name: HeaderEventType, Value: "created"}}}
}

// promises checks a publisher against the promises of the relay about each of them.
func promises(t *testing.T, b *target) {
	t.Run("order and content", func(t *testing.T) {
		p := b.publisher(t, direct)
		require.NoError(t, p.Check(t.Context()))
		var batch []*Message
		for n := range 20 {
			for _, key := range []string{"a", "b", ""} {
				batch = append(batch, row(key, fmt.Sprintf(`{"key":%q,"n":%d}`, key, n)))
			}
		}
		for _, o := range p.Publish(t.Context(), batch) {
			require.Equal(t, Outcome{}, o)
		}
		got := map[string]taken{}
		next := map[string]int{}
		for _, m := range b.taken(t) {
			if want := fmt.Sprintf(`{"key":%q,"n":%d}`, m.key, next[m.key]); m.key != "" {
				require.JSONEq(t, want, m.payload)
			}
			next[m.key]++
			got[m.id] = m
		}
		require.Len(t, got, len(batch))
		for _, m := range batch {
			require.Equal(t, "00-abc-def-01", got[m.IdempotencyKey].trace)
			require.JSONEq(t, string(m.Payload), got[m.IdempotencyKey].payload)
		}
	})
	t.Run("a poison row", func(t *testing.T) {
		p := b.publisher(t, direct)
		bad := row("bad", `{"poison":true}`)
		b.poison(bad)
		batch := []*Message{row("good", `{"n":1}`), bad, row("good", `{"n":2}`), row("other", `{"n":3}`)}
		outcomes := p.Publish(t.Context(), batch)
		require.Error(t, outcomes[1].Err)
		require.False(t, outcomes[1].Away, "it is an attempt of the row: %v", outcomes[1].Err)
		got := map[string]bool{}
		for _, m := range b.taken(t) {
			got[m.id] = true
		}
		for i, m := range batch {
			if i != 1 {
				require.Equal(t, Outcome{}, outcomes[i], i)
			}
			require.Equal(t, i != 1, got[m.IdempotencyKey], i)
		}
	})
	t.Run("what is about the broker is no attempt", func(t *testing.T) {
		for _, to := range []place{nowhere, wrongPassword} {
			p := b.publisher(t, to)
			out := p.Publish(t.Context(), []*Message{row("a", `{}`), row("b", `{}`)})
			for _, o := range out {
				require.Error(t, o.Err)
				require.True(t, o.Away, o.Err)
			}
			require.Error(t, p.Check(t.Context()), "readiness shows it")
		}
	})
	if b.proxy == nil { // the set checker cuts this broker off
		return
	}
	t.Run("a network that comes back", func(t *testing.T) {
		p := b.publisher(t, proxied)
		m := row("net", `{}`)
		require.NoError(t, p.Publish(t.Context(), []*Message{m})[0].Err)
		b.proxy.Cut()
		out := p.Publish(t.Context(), []*Message{row("net", `{}`)})[0]
		require.True(t, out.Away, "%v", out.Err)
		b.proxy.Restore()
		require.Eventually(t, func() bool {
			return p.Publish(t.Context(), []*Message{row("net", `{}`)})[0].Err == nil && p.Check(t.Context()) == nil
		}, soon, 20*time.Millisecond)
	})
}

func TestKafkaKeepsThePromises(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "orders", 3, nil)
	read := map[string]bool{}
	promises(t, &target{
		publisher: func(t *testing.T, to place) Publisher {
			o := kafkaclient.Options{Brokers: c.Brokers()}
			switch to {
			case nowhere:
				o.Brokers = []string{nettest.FreeAddress(t)}
			case wrongPassword:
				o = kafkaclient.Options{Brokers: c.SASLBrokers(),
					SASL: &kafkaclient.SASLOptions{Username: kafkatest.Alice, PasswordFile: nettest.PasswordFile(t, "wrong")}}
			}
			return newKafka(t, o)
		},
		taken: func(t *testing.T) (list []taken) {
			for _, r := range c.Records(t, "orders") {
				m := taken{key: string(r.Key), payload: string(r.Value)}
				for _, h := range r.Headers {
					switch h.Key {
					case "traceparent":
						m.trace = string(h.Value)
					case "idempotency-key":
						m.id = string(h.Value)
					}
				}
				if !read[m.id] {
					read[m.id] = true
					list = append(list, m)
				}
			}
			return list
		},
		poison: func(m *Message) { m.Topic = "there-is-no-such-topic" },
	})
}

func newRabbitMQ(t *testing.T, o RabbitMQOptions) *RabbitMQ {
	t.Helper()
	o.MaxMessageBytes, o.ConfirmTimeout = 1<<20, 30*time.Second
	o.TopicIs = or(o.TopicIs, TopicIsRoutingKey)
	r, err := NewRabbitMQ(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func rabbitOptions(t *testing.T, address, password string) (o RabbitMQOptions) {
	o.URL, o.Username, o.PasswordFile = "amqp://"+address, rabbitmqtest.Alice, nettest.PasswordFile(t, password)
	return o
}

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	n := rabbitmqtest.Start(t, rabbitmqtest.Options{Proxied: true})
	ch := n.Channel(t, "/")
	declare := func(queue string, arguments amqp.Table) {
		t.Helper()
		_, err := ch.QueueDeclare(queue, true, false, false, false, arguments)
		require.NoError(t, err)
	}
	declare("orders", nil)
	promises(t, &target{
		publisher: func(t *testing.T, to place) Publisher {
			o := rabbitOptions(t, n.Address, rabbitmqtest.AlicePassword)
			switch to {
			case proxied:
				o.URL = "amqp://" + n.Proxy.Address
			case nowhere:
				o.URL = "amqp://" + nettest.FreeAddress(t)
			case wrongPassword:
				o.PasswordFile = nettest.PasswordFile(t, "wrong")
			}
			return newRabbitMQ(t, o)
		},
		taken: func(t *testing.T) (list []taken) {
			for _, d := range n.Drain(t, "orders") {
				key, _ := d.Headers[HeaderKey].(string)
				trace, _ := d.Headers["traceparent"].(string)
				require.Equal(t, d.MessageId, d.Headers["idempotency-key"])
				require.Equal(t, "created", d.Type)
				require.Equal(t, "application/json", d.ContentType)
				require.EqualValues(t, amqp.Persistent, d.DeliveryMode)
				list = append(list, taken{d.MessageId, key, trace, string(d.Body)})
			}
			return list
		},
		poison: func(m *Message) { m.Topic = "there-is-no-such-queue" }, // mandatory: it comes back
		proxy:  n.Proxy,
	})

	t.Run("a queue that is full does not reorder a key", func(t *testing.T) {
		declare("full", amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"})
		p := newRabbitMQ(t, rabbitOptions(t, n.Address, rabbitmqtest.AlicePassword))
		var batch []*Message
		for i := range 10 {
			m := row("k", fmt.Sprint(i))
			m.Topic = "full"
			batch = append(batch, m)
		}
		outcomes := p.Publish(t.Context(), batch)
		failed := 0
		for failed < len(outcomes) && outcomes[failed].Err == nil {
			failed++
		}
		require.Less(t, failed, 9)
		require.Equal(t, retry.ClassOverload, retry.ClassOf(outcomes[failed].Err))
		require.False(t, outcomes[failed].Away)
		for _, o := range outcomes[failed+1:] {
			require.True(t, o.Skipped)
		}
		require.Len(t, n.Drain(t, "full"), failed)
	})
	t.Run("an exchange that is missing", func(t *testing.T) {
		o := rabbitOptions(t, n.Address, rabbitmqtest.AlicePassword)
		o.Exchange = "missing"
		p := newRabbitMQ(t, o)
		out := p.Publish(t.Context(), []*Message{row("a", "{}")})[0]
		require.ErrorContains(t, out.Err, "does not exist")
		require.True(t, out.Away, "no row can be published")
		require.ErrorContains(t, p.Check(t.Context()), "does not exist")

		require.NoError(t, ch.ExchangeDeclare("events", amqp.ExchangeTopic, true, false, false, false, nil))
		declare("created", nil)
		require.NoError(t, ch.QueueBind("created", "created", "events", false, nil))
		o.Exchange, o.TopicIs = "", TopicIsExchange
		p = newRabbitMQ(t, o)
		there, lost := row("a", "1"), row("b", "2")
		there.Topic, lost.Topic = "events", "missing"
		outcomes := p.Publish(t.Context(), []*Message{there, lost})
		require.NoError(t, outcomes[0].Err)
		require.ErrorContains(t, outcomes[1].Err, "does not exist")
		require.False(t, outcomes[1].Away, "rows of other topics go on")
		require.Len(t, n.Drain(t, "created"), 1)
	})
	t.Run("dead letters", func(t *testing.T) {
		declare("dead", nil)
		o := rabbitOptions(t, n.Address, rabbitmqtest.AlicePassword)
		o.Exchange, o.DeadLetterExchange, o.NotMandatory = "amq.topic", "", true
		m := row("a", `{"row":{}}`)
		m.Topic, m.DeadLetter = "dead", true
		p := newRabbitMQ(t, o)
		require.NoError(t, p.Publish(t.Context(), []*Message{m})[0].Err)
		require.Len(t, n.Drain(t, "dead"), 1)
		m.Topic = "no-such-queue"
		require.ErrorIs(t, p.Publish(t.Context(), []*Message{m})[0].Err, amqpclient.ErrUnroutable,
			"a dead letter is never dropped")
	})
	t.Run("a broker that is killed keeps what it confirmed", func(t *testing.T) {
		p := newRabbitMQ(t, rabbitOptions(t, n.Address, rabbitmqtest.AlicePassword))
		require.NoError(t, p.Publish(t.Context(), []*Message{row("a", "1"), row("b", "2")})[0].Err)
		n.Kill()
		require.True(t, p.Publish(t.Context(), []*Message{row("a", "3")})[0].Away)
		n.Restart(t)
		require.Eventually(t, func() bool {
			return p.Publish(t.Context(), []*Message{row("a", "3")})[0].Err == nil
		}, soon, 50*time.Millisecond)
		ch = n.Channel(t, "/")
		require.GreaterOrEqual(t, len(n.Drain(t, "orders")), 3)
	})
}

// receiver is a web service that takes rows.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	list []taken
	// answer, if not nil, answers instead. It reports whether it did.
	answer func(w http.ResponseWriter, r *http.Request, body string) bool
}

func newReceiver(t *testing.T, start func(*httptest.Server)) *receiver {
	t.Helper()
	v := &receiver{}
	v.Server = httptest.NewUnstartedServer(http.HandlerFunc(v.serve))
	start(v.Server)
	t.Cleanup(v.Close)
	return v
}

const token = "secret-token"

func (v *receiver) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	answer := v.answer
	v.mu.Unlock()
	if answer != nil && answer(w, r, string(raw)) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if strings.Contains(string(raw), "poison") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Header.Get("Content-Type") == "application/cloudevents-batch+json" {
		v.list = append(v.list, cloudEvents(raw)...)
		return
	}
	v.list = append(
		v.list, taken{r.Header.Get("Idempotency-Key"), r.Header.Get("Outbox-Key"), r.Header.Get("Traceparent"), string(raw)})
}

func (v *receiver) set(f func(w http.ResponseWriter, r *http.Request, body string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = f
}

func (v *receiver) taken(*testing.T) []taken {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.list
	v.list = nil
	return list
}

func newHTTP(t *testing.T, o HTTPOptions) *HTTP {
	t.Helper()
	o.Body = or(o.Body, BodyPayload)
	o.MaxMessageBytes, o.MaxConnections = 1<<20, 4
	if o.RequestTimeout == 0 {
		o.RequestTimeout = soon
	}
	h, err := NewHTTP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func TestHTTPKeepsThePromises(t *testing.T) {
	for _, body := range []string{BodyPayload, BodyCloudEvents} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			v := newReceiver(t, (*httptest.Server).Start)
			proxy := nettest.NewProxy(t, v.Listener.Addr().String())
			promises(t, &target{
				publisher: func(t *testing.T, to place) Publisher {
					o := HTTPOptions{URL: v.URL + "/in", Body: body, TokenFile: nettest.PasswordFile(t, token)}
					switch to {
					case proxied:
						o.URL = "http://" + proxy.Address
					case nowhere:
						o.URL = "http://" + nettest.FreeAddress(t)
					case wrongPassword:
						o.TokenFile = nettest.PasswordFile(t, "wrong")
					}
					return newHTTP(t, o)
				},
				taken: v.taken, poison: func(*Message) {}, proxy: proxy,
			})
		})
	}
}
