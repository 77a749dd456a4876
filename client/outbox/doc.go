// Package outbox writes events into an outbox table of PostgreSQL, in the caller's transaction: the event is there if
// and only if the data is. A relay or an engine takes it from there.
//
//	writer, err := outbox.New(outbox.Options{})
//	...
//	tx, err := pool.Begin(ctx)
//	... // the service's own statements
//	saved, err := writer.Save(ctx, tx, outbox.Event{
//		ID: "order-created-42", Type: "OrderCreated", AggregateType: "Order", AggregateID: "42", Topic: "order-events",
//		Payload: []byte(`{"total": 12.5}`),
//	})
//	...
//	err = tx.Commit(ctx)
//
// It does not know the relay, opens no connections and ends no transactions. The command "sloengine outbox migrate"
// creates the table.
package outbox
