// A process that floods: told by its parent what and for how long.
import { Random } from '../random.ts';
import { Ground, type Target } from './ground.ts';
import { type FloodKind, floods } from './kinds.ts';

export type Order =
  | { readonly begin: FloodKind; readonly seed: number; readonly target: Target }
  | { readonly end: true };

let ground: Ground | null = null;

process.on('message', (order: Order) => {
  if ('begin' in order) {
    ground = new Ground(order.target, new Random(order.seed));
    floods[order.begin](ground);
    return;
  }
  ground?.end();
  process.send?.(ground?.done ?? 0);
});
process.send?.('ready');
process.once('disconnect', () => process.exit());
