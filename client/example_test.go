package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/client"
)

// An application makes one client, and closes it when it ends.
func Example() {
	dir, err := os.MkdirTemp("", "spool") // in production a folder that stays
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c, err := client.New(client.Options{
		URL:     "http://localhost:8080",
		Service: "shop",
		Spool:   client.SpoolOptions{Dir: dir},
	})
	if err != nil {
		log.Fatal(err) // an invalid option, never an unavailable server
	}

	// Fail-open: the error is always nil, whatever becomes of the server.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = c.Send(
		ctx, client.Event{ID: "order-42-paid", Type: "order", Attributes: []client.Attr{{Name: "channel", Value: "web"}}})
	fmt.Println("send:", err)
	fmt.Println("close:", c.Close(ctx))
	// Output:
	// send: <nil>
	// close: <nil>
}

// Where tracking is part of the job, SendStrict says whether the server has the event.
func ExampleClient_SendStrict() {
	c, err := client.New(client.Options{URL: "http://localhost:1", Service: "audit"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())

	err = c.SendStrict(context.Background(), client.Event{ID: "report-7", Type: "filed"})
	var rejected *client.RejectedError
	switch {
	case err == nil:
		fmt.Println("filed")
	case errors.As(err, &rejected):
		fmt.Println("the event is wrong:", rejected.Items[0].Detail)
	default:
		fmt.Println("try again later, with the same id")
	}
	// Output: try again later, with the same id
}

// Observe measures a piece of work.
func ExampleClient_Observe() {
	c, err := client.New(client.Options{URL: "http://localhost:8080", Service: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	pay := func(ctx context.Context) error { return nil }

	charge := func(ctx context.Context, order string) error {
		return c.Observe(ctx, client.Event{ID: order + "-paid", Type: "payment"}, func() error { return pay(ctx) })
	}
	_ = charge
	_ = c.Close(context.Background())
}

// The middleware emits an event for every request that is served.
func ExampleMiddleware() {
	set := metrics.NewSet() // exported at /metrics by the application
	c, err := client.New(client.Options{URL: "http://localhost:8080", Service: "shop", Metrics: client.NewMetrics(set)})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.PathValue("id")) })

	handler := client.Middleware(c, client.MiddlewareOptions{
		Event: func(e *client.Event, r *http.Request) { e.Set("tenant", r.Header.Get("X-Tenant")) },
	})(mux)
	_ = handler // http.ListenAndServe(":8081", handler)
	_ = c.Close(context.Background())
}
