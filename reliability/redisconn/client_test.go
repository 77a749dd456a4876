package redisconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server speaks as much of Redis' protocol as a test says.
type server struct {
	net.Listener
	answer func(command string) string // in RESP

	mu    sync.Mutex
	heard []string
}

// serve starts a server.
func serve(t *testing.T, answer func(command string) string) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{Listener: l, answer: answer}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.talk(c)
		}
	}()
	return s
}

func (s *server) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		var n, size int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(r, word); err != nil {
				return
			}
			words[i] = string(word[:size])
		}
		command := strings.Join(words, " ")
		s.mu.Lock()
		s.heard = append(s.heard, command)
		s.mu.Unlock()
		if _, err := io.WriteString(c, s.answer(command)); err != nil {
			return
		}
	}
}

func (s *server) addr() string { return s.Addr().String() }

func (s *server) has(command string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heard {
		if h == command {
			n++
		}
	}
	return n
}

func client(t *testing.T, o Options) *Client {
	o.DialTimeout, o.Timeout, o.WriteTimeout = 10*time.Second, 10*time.Second, 10*time.Second
	c := New(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestCluster follows a slot: to the server that another names, to one that has a moved key already, and, when its
// server dies, to the one that the rest of the cluster names. Servers that the settings do not name are learnt.
func TestCluster(t *testing.T) {
	var first, second, third *server
	owner := func() *server { return second }
	slots := func() string {
		answer := "*3\r\n"
		for _, s := range []*server{first, second, third} {
			_, port, _ := net.SplitHostPort(s.addr())
			answer += fmt.Sprintf("*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%s\r\n", port) // of its own host
		}
		return answer
	}
	node := func(s **server) func(string) string {
		return func(command string) string {
			switch {
			case command == "CLUSTER SLOTS":
				return slots()
			case command == "ASKING":
				return "+OK\r\n"
			case command == "GET moving" && *s == second:
				return "-ASK 7 " + first.addr() + "\r\n"
			case command == "GET moving":
				return "$4\r\nhere\r\n"
			case *s != owner():
				_, port, _ := net.SplitHostPort(owner().addr())
				return "-MOVED 7 :" + port + "\r\n"
			}
			return ":1\r\n"
		}
	}
	first, second, third = serve(t, node(&first)), serve(t, node(&second)), serve(t, node(&third))
	ctx := context.Background()
	c := client(t, Options{Addrs: []string{"127.0.0.1:1", first.addr()}, Cluster: true, Retries: 3})
	answers, err := c.Exec(ctx, []any{"INCR", "a"}, []any{"INCR", "b"})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1)}, answers)
	require.Equal(t, 1, first.has("INCR a"))
	require.Equal(t, 1, second.has("INCR a"))
	_, err = c.Do(ctx, "INCR", "a")
	require.NoError(t, err)
	require.Equal(t, 1, first.has("INCR a"), "it is known where the slot is")

	answer, err := c.Do(ctx, "GET", "moving")
	require.NoError(t, err)
	require.Equal(t, "here", answer)
	require.Equal(t, 1, first.has("ASKING"))

	_ = second.Close()
	_ = first.Close()
	owner = func() *server { return third }
	c.turn.Add(1) // the connections to them are broken
	answer, err = c.Do(ctx, "INCR", "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, answer)
	require.Equal(t, 1, third.has("INCR a"), "which the settings do not name")
}

// TestFailures are told apart: a call that may succeed soon is repeated as often as the options say, and any other is
// not.
func TestFailures(t *testing.T) {
	s := serve(t, func(command string) string {
		switch command {
		case "GET loading":
			return "-LOADING Redis is loading the dataset in memory\r\n"
		case "GET list":
			return "*2\r\n$1\r\na\r\n$-1\r\n"
		}
		return "-WRONGTYPE no\r\n"
	})
	ctx := context.Background()
	c := client(t, Options{Addrs: []string{s.addr()}, Retries: 2})
	var answer Error
	_, err := c.Do(ctx, "GET", "loading")
	require.ErrorAs(t, err, &answer)
	require.Equal(t, 3, s.has("GET loading"))
	_, err = c.Do(ctx, "GET", "type")
	require.ErrorAs(t, err, &answer)
	require.Equal(t, 1, s.has("GET type"))
	list, err := c.Do(ctx, "GET", "list")
	require.NoError(t, err)
	require.Equal(t, []any{"a", nil}, list)
	require.Equal(t, []string{"a"}, Strings(list))

	secret := client(t, Options{Addrs: []string{s.addr()}, Login: func() (string, string, error) {
		return "", "", errors.New("no file")
	}})
	_, err = secret.Do(ctx, "GET", "list")
	require.ErrorContains(t, err, "no file")
	require.NoError(t, c.Close())
	_, err = c.Do(ctx, "GET", "list")
	require.ErrorIs(t, err, ErrClosed)
}

// TestSentinels that do not answer are asked last, and one that knows no such master says so.
func TestSentinels(t *testing.T) {
	master := serve(t, func(string) string { return ":7\r\n" })
	host, port, err := net.SplitHostPort(master.addr())
	require.NoError(t, err)
	sentinel := serve(t, func(command string) string {
		switch command {
		case "AUTH watch hush":
			return "+OK\r\n"
		case "SENTINEL get-master-addr-by-name main":
			return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
		}
		return "*-1\r\n"
	})
	o := Options{Addrs: []string{"127.0.0.1:1", sentinel.addr()}, Master: "main"}
	o.Sentinel.User, o.Sentinel.Password = "watch", "hush"
	c := client(t, o)
	answer, err := c.Do(context.Background(), "INCR", "a")
	require.NoError(t, err)
	require.EqualValues(t, 7, answer)
	require.Equal(t, sentinel.addr(), c.order()[0])
	o.Master = "other"
	_, err = client(t, o).Do(context.Background(), "INCR", "a")
	require.ErrorContains(t, err, `names no master "other"`)
}

// TestTogether: calls are one round trip. The server answers none before it has both.
func TestTogether(t *testing.T) {
	s := serve(t, func(command string) string {
		if command == "GET a" {
			return ""
		}
		return ":1\r\n:2\r\n"
	})
	c := client(t, Options{Addrs: []string{s.addr()}})
	answers, err := c.Exec(context.Background(), []any{"GET", "a"}, []any{"GET", "b"})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(2)}, answers)
}
