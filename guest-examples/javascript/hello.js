// The smallest guest.
import { log } from 'spear:host/log@1.1.0';

export function run() {
  log(2, 'hello from JavaScript');
}
