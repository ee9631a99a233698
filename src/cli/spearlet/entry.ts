import { crashWithoutSecrets } from '../crash-output.ts';
import { main } from './command.ts';

crashWithoutSecrets('spearlet', 1);
// Everything is closed and all output is written when main returns; what is left are libraries' idle timers.
main(process.argv.slice(2)).then((code) => process.exit(code));
