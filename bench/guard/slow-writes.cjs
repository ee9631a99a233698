// Preloaded into spear-run to show that the guard notices: every write to a pipe or a socket costs SLOW_WRITE_NS more
// processor time of its thread. A governed call makes one such write, a request to a model another.
'use strict';
const { Socket } = require('node:net');

const CALIBRATION_TURNS = 20_000_000;
let sink = 1;

function spin(turns) {
  let value = sink;
  for (let turn = 0; turn < turns; turn++) value = (Math.imul(value, 1_103_515_245) + 12_345) | 0;
  sink = value;
}

const thread = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) * 1_000;
};
spin(CALIBRATION_TURNS); // compiled from here on
const before = thread();
spin(CALIBRATION_TURNS);
const turnsPerNs = CALIBRATION_TURNS / (thread() - before);
const turns = Math.round(Number(process.env.SLOW_WRITE_NS) * turnsPerNs);

// Behind every kind of write, corked or not.
const { _writeGeneric: write } = Socket.prototype;
Socket.prototype._writeGeneric = function slowWrite(...args) {
  spin(turns);
  return write.apply(this, args);
};
