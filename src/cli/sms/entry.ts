import { crashWithoutSecrets, runProgram } from '../run-program.ts';
import { outputOf } from '../say.ts';
import { smsProgram } from './table.ts';

crashWithoutSecrets('spear-sms', 1);
// When it returns, everything is closed and all output is written; only idle timers of libraries are left.
runProgram(smsProgram, process.argv.slice(2), outputOf('spear-sms')).then((code) => process.exit(code));
