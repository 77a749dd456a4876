// A web shop that counts its own requests.
const { sdk } = require('./tracing.js');
const express = require('express');

const counts = {};
const app = express();
app.use((req, res, next) => {
  res.on('finish', () => {
    const minute = Math.floor(Date.now() / 60000) * 60;
    const key = `${minute} ${req.method} ${req.route ? req.route.path : ''} ${res.statusCode}`;
    counts[key] = (counts[key] || 0) + 1;
  });
  next();
});
app.get('/items', (req, res) => res.json(['cup', 'plate']));
app.get('/items/:item', (req, res) => res.status(req.params.item < 50 ? 200 : 404).json({}));
app.post('/orders', (req, res) => {
  if (req.query.fail) throw new Error('out of stock');
  res.status(201).json({});
});
app.get('/broken', (req, res) => res.status(503).json({}));

const server = app.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
process.on('SIGTERM', () => {
  server.close(async () => {
    console.log(JSON.stringify({ counts }));
    await sdk.shutdown();
    process.exit();
  });
  server.closeAllConnections();
});
