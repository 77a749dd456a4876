// Package kafkatest runs real Kafka brokers for tests: Apache Kafka in KRaft mode, which tests can kill, restart, and
// cut off, and the mock cluster of librdkafka as an independent second implementation. It does not know the engine.
//
// A broker is ready after about two seconds and uses as many seconds of CPU, so tests that can do with topics of their
// own share one: see [Shared].
package kafkatest

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// readyWithin bounds the start of a cluster on a busy machine.
const readyWithin = testkit.Patience

// Users of the SASL listener, for both PLAIN and SCRAM. Alice may do everything, Mallory nothing.
const (
	Alice, AlicePassword     = "alice", "alice-secret"
	Mallory, MalloryPassword = "mallory", "mallory-secret"
)

// Options of a Cluster.
type Options struct {
	// Brokers is how many nodes there are, each broker and controller. Default 1.
	Brokers int
	// Properties are those of every node, such as log.retention.check.interval.ms. Topics are not created by
	// themselves unless auto.create.topics.enable says so.
	Properties map[string]string
	// SASL adds a listener for Alice and Mallory, and access control.
	SASL bool
	// TLS adds a listener with a certificate for 127.0.0.1, which asks for a client's certificate and does not need one.
	TLS bool
	// Proxied adds a listener that is reached through Proxies.
	Proxied bool
}

// Cluster is a set of nodes. Its methods belong to the goroutine of the test, except those that say otherwise.
type Cluster struct {
	// Proxies are those of Options.Proxied, one for each node. They outlive a broker that is killed.
	Proxies []*nettest.Proxy
	// CA is the certificate of the TLS listener, as PEM. It is also accepted as that of a client, with Key.
	CA, Key []byte

	o     Options
	nodes []*node
}

// Start starts a cluster that ends with the test, and waits until it answers. The test is skipped where Java or Kafka
// is missing.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	home := requireKafka(t)
	c := start(t, home, t.TempDir(), o)
	t.Cleanup(c.close)
	return c
}

func start(t testing.TB, home, dir string, o Options) *Cluster {
	t.Helper()
	c := &Cluster{o: o}
	c.o.Brokers = cmp.Or(o.Brokers, 1)
	started := false
	defer func() {
		if !started {
			c.close()
		}
	}()
	if o.TLS {
		c.CA, c.Key = nettest.SelfSigned(t)
	}
	for i := range c.o.Brokers {
		n := newNode(t, home, fmt.Sprintf("%s/%d", dir, i+1), i+1, o)
		if o.Proxied {
			c.Proxies = append(c.Proxies, nettest.StartProxy(t, "127.0.0.1:0", n.address[proxied]))
			n.advertised = c.Proxies[i].Address
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.configure(t, c)
		n.start(t)
	}
	c.waitReady(t)
	if o.SASL {
		c.addUsers(t)
	}
	started = true
	return c
}

func (c *Cluster) close() {
	for _, n := range c.nodes {
		n.kill()
	}
	for _, x := range c.Proxies {
		x.Close()
	}
}

func (c *Cluster) addresses(listener string) (list []string) {
	for _, n := range c.nodes {
		list = append(list, n.address[listener])
	}
	return list
}

// Brokers are the addresses of the plain listeners.
func (c *Cluster) Brokers() []string { return c.addresses(plaintext) }

// SASLBrokers are those of the listeners with SASL, without TLS.
func (c *Cluster) SASLBrokers() []string { return c.addresses(sasl) }

// TLSBrokers are those of the listeners with TLS.
func (c *Cluster) TLSBrokers() []string { return c.addresses(secure) }

// SASLTLSBrokers are those of the listeners with SASL over TLS, which a cluster with both options has.
func (c *Cluster) SASLTLSBrokers() []string { return c.addresses(both) }

// ProxiedBrokers are the addresses of Proxies. A client that starts there stays behind the proxies.
func (c *Cluster) ProxiedBrokers() (list []string) {
	for _, x := range c.Proxies {
		list = append(list, x.Address)
	}
	return list
}

// TLSConfig trusts the TLS listeners.
func (c *Cluster) TLSConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	return &tls.Config{RootCAs: pool}
}

// Kill kills a node, counted from 0, with SIGKILL.
func (c *Cluster) Kill(i int) { c.nodes[i].kill() }

// Stop stops a node in an orderly way.
func (c *Cluster) Stop(i int) { c.nodes[i].stop() }

// Restart starts a node again after Kill or Stop, on the same ports and data, and waits until all running nodes answer.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	c.nodes[i].start(t)
	c.waitReady(t)
}

// waitReady waits until every running node is known to the cluster and has a controller.
func (c *Cluster) waitReady(t testing.TB) {
	t.Helper()
	running := 0
	for _, n := range c.nodes {
		if n.cmd != nil {
			running++
		}
	}
	client := c.Client(t, kgo.RetryTimeout(time.Second))
	defer client.Close()
	known := 0
	var err error
	testkit.Eventually(t, fmt.Sprintf("%d nodes of Kafka are ready", running), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		request := kmsg.NewPtrMetadataRequest() // kadm answers from the client's cache
		request.Topics = []kmsg.MetadataRequestTopic{}
		var meta *kmsg.MetadataResponse
		meta, err = request.RequestWith(ctx, client)
		cancel()
		known = 0
		if err == nil {
			known = len(meta.Brokers)
		}
		if known > 0 && known >= running && meta.ControllerID >= 0 {
			return true
		}
		for _, n := range c.nodes {
			if n.exited() {
				t.Fatalf("Kafka node %d ended: %s\n%s", n.id, n.cmd.ProcessState, n.log())
			}
		}
		return false
	}, func() string { return fmt.Sprintf("%d are: %v\n%s", known, err, c.nodes[0].log()) })
}

// Client is a client of the plain listeners. The caller closes it.
func (c *Cluster) Client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Brokers()...)}, options...)...)
	require.NoError(t, err)
	return client
}

// Admin calls a function with an admin client.
func (c *Cluster) Admin(t testing.TB, use func(ctx context.Context, admin *kadm.Client)) {
	t.Helper()
	client := c.Client(t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	use(ctx, kadm.NewClient(client))
}

// CreateTopic creates a topic with as many replicas as there are nodes, up to 3, and waits until all partitions have a
// leader.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions int, settings map[string]string) {
	t.Helper()
	configs := map[string]*string{}
	for k, v := range settings {
		configs[k] = &v
	}
	c.Admin(t, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.CreateTopic(ctx, int32(partitions), int16(min(len(c.nodes), 3)), configs, name)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			topics, err := admin.ListTopics(ctx, name)
			if err != nil || topics[name].Err != nil || len(topics[name].Partitions) != partitions {
				return false
			}
			for _, p := range topics[name].Partitions {
				if p.Err != nil || p.Leader < 0 {
					return false
				}
			}
			return true
		}, testkit.Patience, 10*time.Millisecond, "topic %s has no leaders", name)
	})
}

// Produce writes records and waits until they are acknowledged.
func (c *Cluster) Produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	var client *kgo.Client
	testkit.Within(readyWithin, func() bool {
		client = c.Client(t, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		_, _, err := client.ProducerID(ctx)
		if err == nil || ctx.Err() != nil {
			return true
		}
		client.Close() // the client gives up when a broker that starts or ends closes the connection
		return false
	})
	defer client.Close()
	require.NoError(t, client.ProduceSync(ctx, records...).FirstErr())
}

// Records reads the current records of a topic, by partition and offset.
func (c *Cluster) Records(t testing.TB, topic string) (list []*kgo.Record) {
	t.Helper()
	left := map[int32]int64{} // the ends that are not reached yet
	c.Admin(t, func(ctx context.Context, admin *kadm.Client) {
		starts, err := admin.ListStartOffsets(ctx, topic)
		require.NoError(t, err)
		ends, err := admin.ListEndOffsets(ctx, topic)
		require.NoError(t, err)
		require.NoError(t, ends.Error())
		ends.Each(func(o kadm.ListedOffset) {
			if first, _ := starts.Lookup(topic, o.Partition); o.Offset > first.Offset {
				left[o.Partition] = o.Offset
			}
		})
	})
	if len(left) == 0 {
		return nil
	}
	client := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return list
}

// addUsers makes the credentials of SCRAM, and lets Alice do everything.
func (c *Cluster) addUsers(t testing.TB) {
	t.Helper()
	c.Admin(t, func(ctx context.Context, admin *kadm.Client) {
		// a request may name a user once
		for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
			altered, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
				{User: Alice, Mechanism: mechanism, Iterations: 4096, Password: AlicePassword},
				{User: Mallory, Mechanism: mechanism, Iterations: 4096, Password: MalloryPassword},
			})
			require.NoError(t, err)
			require.NoError(t, altered.Error())
		}
	})
}

// Log returns the output of a node.
func (c *Cluster) Log(i int) string { return c.nodes[i].log() }

// CPU returns the CPU time that a running node has used.
func (c *Cluster) CPU(t testing.TB, i int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.nodes[i].cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func merged(base, more map[string]string) map[string]string {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}
