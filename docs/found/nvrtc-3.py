# nvrtc-3, NVRTC 13.0 to 13.5: the compiler crashes on sums of negated bytes
# It needs numpy and cuda-bindings. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import base64, zlib, subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import ctypes; from cuda.bindings import driver, nvrtc
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and cuda-bindings") or 2)
SOURCE = r"""__device__ __forceinline__ int tinyref_widened(int byte) {
  return byte;
}
extern "C" __global__ void __launch_bounds__(1) k_r_2_24_2_9(int *data0, signed char *data1, short *data2, signed char *data3, int *data4) {
  int group_2 = blockIdx.z;
  int group_0 = blockIdx.x;
  int group_1 = blockIdx.y;
  int v1 = (int)((unsigned int)group_2 * (unsigned int)216);
  int v2 = (int)((unsigned int)group_1 * (unsigned int)9);
  int v3 = (int)((unsigned int)group_2 * (unsigned int)153);
  int v4 = (int)((unsigned int)group_0 * (unsigned int)9);
  int acc5 = 0;
  for (int i6 = 0; i6 < 9; i6++) {
    int v7 = (int)((unsigned int)i6 + (unsigned int)v1);
    int v8 = (int)((unsigned int)v7 + (unsigned int)v2);
    signed char v9 = data1[v8];
    short v10 = (short)tinyref_widened(v9);
    short v11 = (short)((unsigned int)v10 * (unsigned int)((short)-1));
    signed char v12 = (signed char)v11;
    int v13 = (int)tinyref_widened(v12);
    int v14 = (int)((unsigned int)i6 + (unsigned int)v3);
    int v15 = (int)((unsigned int)v14 + (unsigned int)v4);
    int v16 = (int)((unsigned int)v15 + (unsigned int)2);
    signed char v17 = data3[v16];
    int v18 = (int)tinyref_widened(v17);
    int v19 = (int)((unsigned int)v13 * (unsigned int)v18);
    int v20 = (int)((unsigned int)acc5 + (unsigned int)v19);
    acc5 = v20;
  }
  int v21 = (int)((unsigned int)group_2 * (unsigned int)408);
  int v22 = (int)((unsigned int)v21 + (unsigned int)group_0);
  int v23 = (int)((unsigned int)group_1 * (unsigned int)17);
  int v24 = (int)((unsigned int)v22 + (unsigned int)v23);
  int v25 = (int)((unsigned int)group_2 * (unsigned int)96);
  int v26 = (int)((unsigned int)group_0 * (unsigned int)2);
  int v27 = (int)((unsigned int)v25 + (unsigned int)v26);
  int v28 = (int)((unsigned int)group_1 * (unsigned int)4);
  int v29 = (int)((unsigned int)v27 + (unsigned int)v28);
  int v30 = (int)((unsigned int)v29 + (unsigned int)2);
  int v31 = data4[v30];
  int v32 = (int)((unsigned int)v31 + (unsigned int)acc5);
  int v33 = (int)((unsigned int)v32 + (unsigned int)(-2));
  data0[v24] = v33;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.frombuffer(zlib.decompress(base64.b85decode('c-l=?2|QJ4A9gRUi@rufh+onmYmp-Q61PvQ$=+Vdnx#+~sf>GzrcyGRsYJ9+D}$n<kZmM;r6Q(<EJMn^-0eHh@!qEMbDVR}dEe)K{?GsU|KIbdH6~ta;;@sZ{;eo%o*$5J=_W(n4~xZOT+<qd@~B(!+ms8uG3wgX5Eg{z^3=ITPj9lRo9`Fim{(uA#=Q8XL5-vt?po49YFy}keRlzM1^BkyE$5Te7dc-XNO8kFkyy+X4-H;Da?(Fpj{2=V!GXu8#xtlJX+jEPu{O9cu^x3$SDtD|#bOqjGfKUq@Wj5Rl^Ww@oGf*gzl`tS+^=^4T;k#$`$Yem%mMbNr<snnQ~S%NuSmXadim7*UXA}SfziF8s-1$90xmU&Yfx8`PTk7P*fBK@m}6fQ%<EGlE5aN8vISos!qdF3sR=Qx-mf(UJit*BH=d7B_aU2X(%H~7+fiiW{g{F0UbSb<@NRCet`f#FNX+0OiD|H_(6cW2SQg^hb+qIKb3zZ>9}KoVgI2(V9?eN9ei&0E;?cR0vZMG?@2kf4mTPZa$b^n;i@`i#PAP4it}OHB+AZqPzEG|Qee$pHR%4z@@0YdEdxUTRrsmRcbtx$&sdR(*PQ<lSA#^Ez1Iv15!a0r&-vxSMO;gWV%Q%iH-ocYp(!vuGs)ZAAa2Yv1EL@Q<qK)>c9OFo-(d{~_!l%A!HoPff?|^+WL|5nzJ)$(PM}mhTr^(CV_WVBhptgt|J3{gd(Rw?>3$_~;1%Gk9VCnmDj=B`d|505tXT-Q;g{^<(R*MD5tGm3(AT+~?wZLVA*RR7j^JP0l#Czb3{I<R7e8?ofk!SmJ4W&LLr&^9}mpQL|JOqS?G|AsjlRI76U;WFYz3Y*fyA6Cou4w8YmVJBfE@=0D%_w*3(51aL@3{R<y;N)VL|urHH>@G88>@ymQ~zL<0PnR?-YV)RSHhcXzQo_*(Wf6{gTxOouCcn4i*df$cgr2;D1-p}JmD9jJ)DjFq;ghTF^Y=f5I&#e_ecF}B0twfl@ZST`-lNG1bijc<&_TA8dlUZ9&nX+Cw1(V9lwY7<@aJDHqU?A52pcNQzu4=LHO$z9{M;`@$?V=&BOKZroz2x#(aV~Zah1<gykUzP30V2N3?20Z*bpj8vI*UZL&$?K7l*pzxT7WGd+I7D>Cu?DjDc$cy=@iYv#3_-uLXzVQ&XNg%x>o*P2J%$QgnzThCZ$6nCbwJ(ZuC$vh1|7@YOw1v1g@l5*=(sO5bT(H0mFEsQQ>jWhRszlTrgyynj=@E4Spqh7qa)KaZx1r|f25}z6RY~oAt1ScLa!nSBx<Nb0qqfx{-mRU1bO#E^--ls-DJS9hbg#5pq8m^JiCyskL>aT#hVUn63A-!Wc=jl{niAnBQr0-$=C6OrGq0IQCh<Fs(6{AY=m*iA6em^vj1AZdX7rG5pe!+YtZbJ=v#{Xhn%wd~Wwc|$$Q@O_I9MBhQ9nA}P`1_%uX{$CJN!>H1S1Qy0Y!&Jix?pV;r|iu_5{rPu$0WT6I_O7rC4s-N+spq`f9fXph}6llBxZ1NDm`Y3v3AE@-d&kxH%W%{bzlXp)3~xTE-nqc^SB3|V?BG1wiMv*d0g<0_T&}YozY>}&w_8=@W&8bh2)%96qM+4Eaxzb^gZ@BeHR>#Cw<Dmo6_}G<Fcggl@*yQ5TE6cY;?<C-Ido2Pqbm3@`OY$n~;rqlD;Y?d!T8WcY{2gex}qvZ`5Cjh;HGn=TBevmfv9d#9CYKYY%5iWu@yh&Fk)qdEc{JUVU#}$LTc|i3(V^A;7rHh*#1u>Hg|1j+)cKnXM4?3-ru65<iXh+VdM%C4Q(Y(^(6|rBxkq=(%J6`j?Kg@1V3ZFo10z+Wy(7tVLCE=XO;A;kTrtr)#xYt~tpSJx5aGD!Mkcc7I2X^!1qi3`~r7ZoVt%cGX#<&M2{W8@R(=67A592}9*qi+7KN*v2a7PKEc~)EC!@i2k!bHa{Pm@G8&khc`4wA~Wr4Z$Et#@bh0k=}q}CXQWZ~L}f$uDR<~k_H`cqfETJFs+AA(2^=F{6O;PD*|m|g4*C?=KiH1(%)g@<*`FOYMb{?3!+P`{EIfL~Nw_kM?(vWNm##ZtV(>z{^(44xNzV-(C!XjqDWv(~pXwcRx8TLC7dTt3XMT45kc6K3C)-aE97ZiPdyw}_ALdwSKRc`{e=>jp?Djfu)yTq4t?vs~eU$9CnQwD4`yGUX75n=B1ote(X=<`0hL!~;Q{biLzpXW(<MPYTV39oZ9;v(Nm(j42-WTmAdMKUK0l#2qtyLguTb~nKJ#_WXh(_*`i$c;HfIVBcJ4I4UsGBCXwC9#}-p%k%pzR{FF*0u1jT4HfWjg=$t-VlGRp-?uHrXq&j(uRlF)O(pOZEKjU;U|p>pD(6_}?mhx=;Fi^KBwcYD`Q#z#!j?@MvG#+Cm}mfKH&`PLzF`XF;6>ojcYydpmNvYjS<!xd;zE!_9AvFh^PHdlz?82WN~0cPE>!+}5bU#qAxIlZE6vP@eF`*|WOm0s7#F%u|nO9irB^$dG;s-T9<mB2M29n3yv0shO}lbc3XS49zb2+)$kVQ10J-oaeVah6x{3q;sNA9+KNE`34w#moQ$Y<H?oe2+udFzt?^JuK$EA*>6wpDqPflEeLXHd)zRuA0gjzIFc3144B{aQ1oR!!5VPjrqx+iMZ--3!4oIRKEn+R$=Q<;6$AWNHxzn&IsQ8_@4!GN=S5ofIp7S}s4NIrQ0>^!m}Z5#5?<VMaBfYoxuoV#HCrl5dLr`bB-^M;_YjM$0IYAIxp4pcTT67YHjD7XM1xQHXILaxk+t(@<60Tk;`p6^v4BtZAU^qKk?eb{uYFL7)^nJ62jdnF7-lCg<JNUm>=sLE{Qsa=qni')), np.int32)),
    (0, np.frombuffer(zlib.decompress(base64.b85decode('c-jH50Z;w}>~LEC`A7PIMgR!`&jbbe+<__q2LA~8WK#zEWGsR+2nZemBy#|>GI8up{@+nA1qs_fj!RH#KmP@@2Lb}!34jC$1OiEXRn#!W+~x%~rSGEtAl&}>WUuutXa@Qc{&v!&2>t<J5D+Vj15c)q=>!A+fY7l4ftLvT17+>~1a<hi3|04km7D|q1w{R1p8^H@2L$_4d;UU=#Qzifegpsq#i#`cque`_egr4x;|9}$Kz;=eA^ZAbfC9(y(SiI0QVIV9|MvL#uI%{*2m<<u1cCzd`~wIq`5iHISXEsJ_yYn32mw<}h4=z))dm0qB?0#OhvfgKRrdn<`33=&vHmIsnLjSng7^9Pb^6ImZ2tGY0RHL)4oL!1^!p_S_5$|_@CXA3{onov+JfSHeggjh_JM5v2EYjg2mC0UfA%nf_UZ=@cK<*D(+~()27Ny^^7rISdHeZQ0)>(a(LYcE{DJrV0ow)%@2vcdetq}-0t5dov4INtERR(J`2hR+`vm_0{{jIerPZ34=CL3N_zC&U{{Q;&h5G#e2!8(v9spDN`v9C-)Xka')), np.int8)),
    (0, np.array([1], np.int16)),
    (0, np.frombuffer(zlib.decompress(base64.b85decode('c-p(ItibZ;!Ch4)dFJ2u@2DuU{(X4w_FxqQ03-xf9{')), np.int8)),
    (0, np.frombuffer(zlib.decompress(base64.b85decode('c-rlZSq^|86vPI1^!`U>QGrJjPhr9&P5U*$%nHnsPIzdC56Jdyqa&`c&=<V)ggx9e(hiAku+m|CkMEy<cVcIL?E')), np.int32)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(16), [np.array([858, 4624, 1073741824, 3, 886882120, 1396096361, 4, -10, 4, -1158293076, -1, -2137023009, -7, 1802819034, 4, 9], np.int32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
def call(answer):
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1] if len(answer) > 1 else None

try:
    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
except RuntimeError as error:
    sys.exit(print("no GPU of CUDA:", error) or 2)
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
names = [f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR")]
target = "".join(str(call(driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, x), device))) for x in names)
program = call(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], []))
options = [f"--gpu-architecture=sm_{target}".encode(), *[b'--std=c++17', b'--ftz=false', b'--prec-div=true', b'--prec-sqrt=true', b'--fmad=false']]
call(nvrtc.nvrtcCompileProgram(program, len(options), options))
code = bytearray(call(nvrtc.nvrtcGetCUBINSize(program)))
call(nvrtc.nvrtcGetCUBIN(program, code))
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_r_2_24_2_9"))
stream = call(driver.cuStreamCreate(0))
starts = [int(call(driver.cuMemAlloc(max(part.size, 1)))) for part in memory]
for part, start in zip(memory, starts):
    call(driver.cuMemcpyHtoDAsync(start, part.ctypes.data, part.size, stream))
values = [ctypes.c_uint64(start + at) for start, (at, _) in zip(starts, arrays)]
values += [ctypes.c_int32(value) for value in []]
pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
call(driver.cuLaunchKernel(kernel, *(2, 24, 2), *(1, 1, 1), 0, stream, ctypes.addressof(pointers), 0))
for part, start in zip(memory, starts):
    call(driver.cuMemcpyDtoHAsync(part.ctypes.data, start, part.size, stream))
call(driver.cuStreamSynchronize(stream))
wrong = 0
for number, elements, values, low, high in checks:
    at, array = arrays[number]
    got = memory[number][at : at + array.nbytes].view(values[0].dtype)[elements]
    bits = f"u{got.itemsize}"
    good = low is not None and (low <= got) & (got <= high)
    for value in values:
        good = good | (got.view(bits) == value.view(bits)) | (got != got) & (value != value)
    print(f"array {number}: expected {values[0]}, got {got}")
    wrong += np.count_nonzero(~good)
print("wrong" if wrong else "right")
sys.exit(1 if wrong else 0)
