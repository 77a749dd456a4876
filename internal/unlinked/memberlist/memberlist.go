// Package memberlist declares what Alertmanager's cluster names of the package: see internal/unlinked/README.md.
package memberlist

import (
	"errors"
	"log"
	"net"
	"time"
)

// A Memberlist is a cluster, which has no members.
type Memberlist struct{}

// Create returns an error.
func Create(*Config) (*Memberlist, error) {
	return nil, errors.New("this build does not form clusters")
}

func (*Memberlist) GetHealthScore() int              { return 0 }
func (*Memberlist) Join([]string) (int, error)       { return 0, nil }
func (*Memberlist) Leave(time.Duration) error        { return nil }
func (*Memberlist) LocalNode() *Node                 { return &Node{} }
func (*Memberlist) Members() []*Node                 { return nil }
func (*Memberlist) NumMembers() int                  { return 0 }
func (*Memberlist) SendReliable(*Node, []byte) error { return nil }

// A Node is a member.
type Node struct {
	Name string
	Addr net.IP
	Port uint16
	Meta []byte
}

func (*Node) Address() string { return "" }
func (*Node) String() string  { return "" }

// A Config holds the settings of a cluster.
type Config struct {
	Name, BindAddr, AdvertiseAddr, Label                                      string
	BindPort, AdvertisePort, GossipNodes, UDPBufferSize                       int
	GossipInterval, PushPullInterval, TCPTimeout, ProbeTimeout, ProbeInterval time.Duration
	Logger                                                                    *log.Logger
	Delegate, Ping, Alive, Events, Conflict, Transport                        any
}

// DefaultLANConfig returns no settings.
func DefaultLANConfig() *Config { return &Config{} }

// A Packet is a message of a member.
type Packet struct {
	Buf       []byte
	From      net.Addr
	Timestamp time.Time
}

// A Broadcast is a message to all members.
type Broadcast interface {
	Invalidates(b Broadcast) bool
	Message() []byte
	Finished()
}

// A TransmitLimitedQueue is a queue of broadcasts, which stays empty.
type TransmitLimitedQueue struct {
	NumNodes       func() int
	RetransmitMult int
}

func (*TransmitLimitedQueue) GetBroadcasts(int, int) [][]byte { return nil }
func (*TransmitLimitedQueue) NumQueued() int                  { return 0 }
func (*TransmitLimitedQueue) QueueBroadcast(Broadcast)        {}
func (*TransmitLimitedQueue) Prune(int)                       {}

// The agents of a cluster.
type (
	Delegate      any
	AliveDelegate any
	EventDelegate any
	PingDelegate  any
)
