// Loads an entry as a user who may not change the cache. As root, who may do anything, it becomes somebody else first.
import { ComponentCache } from '../../../../src/runtime/wasm/component/component-cache.ts';

const [directory = '', key = '', uid = ''] = process.argv.slice(2);
if (uid !== '') process.setuid?.(Number(uid));
const cache = ComponentCache.open(directory);
process.stdout.write(typeof cache === 'string' ? cache : String(cache.load(key)));
