package remote

import (
	"context"
	"errors"
	"time"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/api"
)

// askEvery is how often a replay is asked for. An engine cancels one that is not asked for within 30 seconds.
const askEvery = 2 * time.Second

// Backtest has the engine replay its log, and waits for the result.
func Backtest(ctx context.Context, engine cli.Engine, q *api.BacktestRequest,
	show func(share float64, text string)) (*backtest.Result, error) {
	c := Client{engine}
	for {
		var a api.BacktestAnswer
		if err := c.act(ctx, api.BacktestPath, q, &a); err != nil {
			return nil, err
		}
		switch {
		case a.Result != nil:
			show(1, "")
			return a.Result, nil
		case a.Progress >= 1:
			return nil, errors.New("the engine answered without a result")
		case a.Busy:
			show(a.Progress, "replayed for somebody else, yours is next")
		default:
			show(a.Progress, "replayed")
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
