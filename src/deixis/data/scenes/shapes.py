"""Shapes of everything that is drawn, as a table: kind, part, fill, outline with points; sizes; options.

Points are in hundredths of the height of a thing: x to the right, y down, the ground at y = 0; it faces right. A point
may also be the name of a joint of a person.

kind      empty: the kind of the row above
part      "-" has no name; ``wheels/1`` is the second of the wheels; ``$top`` is named by the trait "top"
fill      a paint of the thing or a material, made lighter or darker: ``main``, ``main-30``, ``glass``
outline   a function of :mod:`~deixis.data.scenes.outlines`; ``leg`` is an animal's leg (hip; half its width, stride)
points    ``|`` begins another shape of the row, whose number is one higher
options   ``in head``: points and sizes are in this frame. ``if pose=sit, run``: only with this trait (also ``!=``).
          ``lit 3``: its lower right is darker. ``pattern 3``: with the paint's pattern, else lit. ``edge 0``: no edge.
          ``both 2``: once more on the near side, in layer 2. Options in brackets are for all rows up to the next
          brackets or kind.
"""

TABLE = """
person   [in limb ; both 2]
         arms/1    skin      line far.shoulder, far.elbow, far.hand ; 100 80
         arms/1    skin      disc far.hand ; 105
         $top      top       line far.shoulder, far.elbow ; 120 ; pattern 30 ; if top=shirt, dress
         $top      top       line far.shoulder, far.elbow, far.cuff ; 118 98 ; pattern 30 ; if top!=shirt, dress
         [in limb ; both 0]
         legs/1    skin      line far.hip, far.knee, far.ankle ; 135 95
         pants     bottom    line far.hip, far.knee, far.ankle ; 138 98 ; if bottom=pants ; if top!=dress
         shorts    bottom    line far.hip, far.knee ; 150 ; if bottom=shorts
         [in far.foot ; both 0]
         shoes/1   shoes     blob -4.2 0, -3.6 -4.4, 2.4 -4.4, 6.2 -1.4, 5.4 0
         [in torso ; pattern 8]
         $bottom   bottom    rect -69 80, 69 111 ; 20 ; if bottom!=skirt ; if top!=dress
         skirt     bottom    blob -69 84, 69 84, 125 149, 0 155, -125 149 ; if bottom=skirt ; if top!=dress
         dress     top       blob -72 -4, 72 -4, 99 16, 60 67, 132 152, -132 152, -60 67, -99 16 ; if top=dress
         $top      top       blob -72 -4, 72 -4, 99 16, 72 58, 76 100, -76 100, -72 58, -99 16 ; if top!=dress
         jacket    top-40    rect -5 6, 5 98 ; edge 0 ; if top=jacket
         [in head]
         hair      hair      blob -95 -50, 0 -122, 95 -50, 112 90, 60 155, -60 155, -112 90 ; lit 20 ; if hair=long
         hair      hair      cloud 0 -30 ; 128 115 ; lit 20 ; if hair=curly
         face      skin-10   line 0 60, 0 140 ; 33
         face      skin      disc -96 10 | 96 10 ; 20 26
         face      skin      disc 0 0 ; 100 110
         beard     hair      blob -100 12, -88 70, -40 108, 40 108, 88 70, 100 12, 62 18, 0 2, -62 18 ; if beard=yes
         [in face ; edge 0]
         face      skin-14   disc -55 35 | 55 35 ; 17 11
         face      lips      line -28 42, 0 54, 28 42 ; 4
         face      dark      disc -34 -2 | 34 -2 ; 10.5
         glasses   dark      disc -36 -1 | 36 -1 ; 31 23 ; if glasses=yes
         [in head ; lit 14]
         hair      hair      blob -102 -8, -98 -70, 0 -124, 98 -70, 102 -8, 70 -52, -62 -48 ; if hair=short
         hair      hair      blob -104 10, -102 -66, 0 -128, 102 -66, 104 10, 70 -46, -8 -66, -72 -40 ; if hair!=short
         cap       hat       blob -108 -40, -90 -100, 0 -140, 90 -100, 108 -40, 172 -28, 60 -36 ; if hat=cap
         hat       hat       blob -78 -50, -66 -150, 66 -150, 78 -50 ; if hat=hat
         hat       hat       disc 0 -55 ; 172 26 ; if hat=hat
dog      tail      main      line -40 -55, -52 -66, -58 -80, -56 -93 ; 6 3
         legs/2    main-20   leg -30 -42 | 30 -42 ; 5.8 20
         legs/0    main      leg -38 -42 | 20 -42 ; 5.8 20
         body      main      blob -46 -52, -32 -69, 5 -66, 36 -72, 45 -50, 28 -33, -5 -38, -38 -34 ; pattern 4
         body      main      line 32 -58, 46 -74 ; 13 ; edge 0
         collar    collar    poly 27 -74, 33 -79, 56 -60, 51 -54
         head      main      disc 50 -80 ; 20 19 ; lit 3
         head      main+16   disc 68 -74 ; 14 10
         head      dark      disc 80 -78 | 57 -86 ; 3.6 ; edge 0
         ears      main-30   blob 40 -98, 48 -90, 44 -66, 33 -63, 30 -84
cat      tail      main      line 20 -8, 45 -6, 52 -24, 46 -40 ; 6 4.5
         body      main      blob -26 -4, -31 -24, -16 -58, 16 -58, 31 -24, 26 -4, 0 0 ; pattern 4
         legs/0    main      line -8 -34, -9 -5 | 8 -34, 9 -5 ; 6
         ears/0    main      poly -21 -80, -19 -106, -3 -91 | 21 -80, 19 -106, 3 -91
         head      main      disc 0 -74 ; 23 20 ; lit 2.5
         head      rose      poly -3 -69, 3 -69, 0 -65.5 ; edge 0
         head      glow      disc -9 -75 | 9 -75 ; 4.4 5.4 ; edge 0
         head      dark      disc -9 -75 | 9 -75 ; 1.9 4.6 ; edge 0
horse    tail      main-50   line -44 -62, -56 -56, -58 -40, -54 -22 ; 5 3
         legs/2    main-20   leg -32 -46 | 30 -46 ; 4.6 17
         legs/0    main      leg -40 -46 | 22 -46 ; 4.6 17
         body      main      blob -48 -56, -40 -70, -10 -66, 20 -70, 38 -62, 36 -46, 10 -41, -42 -44 ; pattern 4
         body      main      blob 14 -64, 30 -82, 44 -98, 56 -90, 48 -72, 40 -52
         mane      main-50   blob 8 -67, 22 -86, 40 -102, 50 -100, 36 -86, 24 -68
         head      main      poly 46 -98, 50 -110, 55 -97
         head      main      blob 42 -96, 52 -102, 68 -90, 80 -78, 76 -70, 66 -72, 50 -82 ; lit 2
         head      dark      disc 56 -92 | 76 -77 ; 2 ; edge 0
         saddle    saddle    blob -14 -68, 10 -68, 12 -56, -2 -50, -16 -56
cow      tail      main-30   line -56 -78, -66 -66, -64 -40 ; 2.2 3
         legs/2    main-20   leg -34 -40 | 36 -40 ; 6 16
         legs/0    main      leg -46 -40 | 24 -40 ; 6 16
         body      main      blob -58 -50, -54 -82, -10 -82, 36 -86, 50 -66, 44 -40, 0 -33, -50 -36 ; pattern 4
         horns     cream     blob 47 -90, 43 -104, 52 -92 | 65 -90, 69 -104, 70 -92
         ears      main-25   disc 42 -86 ; 10 5
         head      main      blob 42 -88, 56 -95, 70 -88, 76 -64, 66 -54, 50 -62 ; lit 3
         head      rose      disc 68 -60 ; 10 8
         head      dark      disc 60 -78 ; 2.5 ; edge 0
sheep    legs/0    wool      leg -34 -36 | 18 -36 | -24 -36 | 28 -36 ; 5 15
         body      main      cloud -4 -57 ; 50 33 ; lit 5
         ears      wool      disc 34 -80 ; 10 5
         head      wool      disc 50 -74 ; 15 19 ; lit 2
         head      main      cloud 45 -91 ; 15 9 ; lit 2
         head      snow      disc 55 -78 ; 3 ; edge 0
bird     tail      main-20   poly -42 -52, -90 -60, -86 -44, -40 -36
         legs/0    beak      line -6 -30, -6 -2, 4 -2 | 10 -30, 10 -2, 20 -2 ; 2 ; if pose!=fly
         wings/1   main-30   blob -16 -60, -30 -110, -2 -130, 20 -62 ; if pose=fly
         body      main      blob -50 -46, -20 -68, 20 -70, 42 -52, 26 -28, -16 -24 ; lit 6
         beak      beak      poly 52 -84, 82 -74, 52 -66
         head      main      disc 36 -76 ; 22 21 ; lit 3
         head      dark      disc 43 -80 ; 4 ; edge 0
         wings/0   main-14   blob -30 -56, -50 -120, -10 -145, 10 -58, -10 -46 ; lit 5 ; if pose=fly
         wings/0   main-16   blob 16 -56, -10 -60, -56 -44, -30 -34, 4 -36 ; lit 3 ; if pose!=fly
car      -         main      blob -62 -55, -46 -97, 20 -100, 55 -58 ; lit 3
         windows/0 glass     blob -50 -60, -40 -88, -14 -90, -12 -60 | -2 -60, -2 -90, 18 -90, 42 -60 ; lit 6
         -         main      blob -102 -20, -104 -50, -80 -62, 50 -62, 94 -50, 104 -32, 100 -17, 0 -14 ; lit 5
         -         main-30   rect -7.5 -56, -5.5 -20 | -24 -48, -13 -45 ; edge 0
         wheels/0  dark      disc -58 -21 | 58 -21 ; 21
         wheels/0  steel     disc -58 -21 | 58 -21 ; 11 ; edge 0
bicycle  wheels/0  dark      line -52 -63, -31 -54, -22 -33, -31 -12, -52 -3, -73 -12, -82 -33, -73 -54, -55 -63 ; 3
         wheels/1  dark      line 52 -63, 73 -54, 82 -33, 73 -12, 52 -3, 31 -12, 22 -33, 31 -54, 49 -63 ; 3
         frame     main      line -52 -33, -6 -30 | -52 -33, -20 -72 | -6 -30, -23 -80 ; 2.8
         frame     main      line -6 -30, 38 -70 | -20 -72, 38 -72 | 52 -33, 37 -80 ; 2.8
         frame     dark      line 37 -80, 34 -92 | 24 -94, 46 -90 ; 2.5
         seat      dark      blob -36 -86, -20 -87, -8 -83, -22 -79
boat     mast      wood      rect -3 -100, 1 -20
         sail      sail      poly -7 -94, -7 -32, -55 -34 | 5 -90, 5 -34, 50 -36 ; pattern 3
         hull      main      blob -62 -26, 66 -30, 40 -2, 0 0, -42 -2 ; lit 3
house    chimney   brick     rect 24 -98, 36 -60
         -         main      rect -50 -58, 50 0 ; lit 3
         roof      roof      poly -60 -55, -26 -94, 26 -94, 60 -55
         door      door      rect -11 -34, 10 0 ; 2 ; lit 2
         windows/0 glass     rect -40 -42, -20 -20 | 20 -42, 40 -20 ; lit 6
tree     [if place!=snow, beach]
         trunk     trunk     blob -8.5 0, -5 -30, -6 -55, 6 -55, 5 -30, 9 0 ; lit 2
         leaves    main-12   cloud -19 -62 | 19 -62 ; 20 17
         leaves    main      cloud 0 -74 ; 29 26 ; lit 5
         [if place=snow]
         trunk     trunk     rect -5 -20, 5 0 ; lit 2
         leaves    main-12   poly -30 -12, 0 -55, 30 -12 | -25 -34, 0 -78, 25 -34 | -19 -58, 0 -100, 19 -58 ; lit 4
         [if place=beach]
         trunk     trunk     line -6 0, -2 -30, 4 -55, 2 -78 ; 4.5 3 ; lit 2
         leaves    main      line 2 -78, -19 -88, -40 -62 | 2 -78, -14 -90, -30 -86 | 2 -78, -4 -90, -10 -100 ; 3.5 0.4
         leaves    main-12   line 2 -78, 22 -90, 42 -64 | 2 -78, 18 -90, 34 -88 | 2 -78, 8 -91, 16 -100 ; 3.5 0.4
flower   stem      leaf      line 0 0, 3 -30, 0 -66 ; 2.5
         stem      leaf      blob 2 -24, 20 -40, 30 -36, 16 -22
         petals    main      disc -15 -76 | 15 -76 | -7.5 -89 | 7.5 -89 | -7.5 -63 | 7.5 -63 ; 10.5
         petals    glow      disc 0 -76 ; 10
rock     -         main      blob -85 -2, -78 -50, -30 -94, 30 -90, 72 -56, 86 -4, 0 2 ; lit 14
bench    legs      main-45   rect -92 -95, -85 0 | 85 -95, 92 0
         back      main      rect -105 -98, 105 -83 | -105 -76, 105 -61 ; 3
         seat      main+12   rect -110 -52, 110 -36 ; 4 ; lit 3
table    legs      main-25   rect -62 -82, -54 -10 | 54 -82, 62 -10 | -86 -86, -76 0 | 76 -86, 86 0
         top       main      rect -100 -100, 100 -84 ; 4 ; lit 3
chair    legs      main-35   rect -20 -44, -14 -6 | 14 -44, 20 -6 | -32 -100, -26 0 | 26 -100, 32 0 ; 1
         back      main      rect -30 -97, 30 -87 | -30 -78, 30 -68 ; 2
         seat      main+10   rect -36 -50, 36 -39 ; 3 ; lit 2
sofa     legs      wood      rect -110 -12, -100 0 | 100 -12, 110 0
         back      main      rect -115 -100, 115 -20 ; 14 ; pattern 3
         seat      main+12   rect -110 -56, 0 -10 | 0 -56, 110 -10 ; 8 ; lit 4
         arms/0    main      rect -132 -70, -102 -6 | 102 -70, 132 -6 ; 12 ; lit 3
lamp     pole      dark      rect -2 -80, 2 0 | -10 -5, 10 0
         shade     main      poly -10 -100, 10 -100, 19 -74, -19 -74 ; pattern 3
ball     -         main      disc 0 -50 ; 50 ; pattern 10
balloon  string    steel     line 0 0, 3 -25, 0 -54 ; 0.8 ; edge 0
         -         main      blob 0 -52, 19 -70, 17 -93, 0 -100, -17 -93, -19 -70 ; pattern 3
         -         main+55   disc -7 -86 ; 4 6 ; edge 0
umbrella handle    wood      line 0 -100, 0 0 ; 1.4
         canopy    main      blob -50 -62, -40 -88, 0 -99, 40 -88, 50 -62, 25 -66, 0 -62, -25 -66 ; pattern 3
kite     string    steel     line 0 0, 14 -20, 25 -50 ; 0.8 ; edge 0
         -         main      poly 36 -100, 56 -76, 25 -44, 6 -78
flag     -         main      blob 2 -98, 20 -102, 42 -95, 44 -66, 22 -72, 2 -67 ; pattern 3
         pole      wood      rect -1.5 -102, 1.8 0
book     pages     cream     rect -46 -96, 50 -4 ; 3
         cover     main      rect -50 -100, 42 0 ; 4 ; lit 5
box      -         main      rect -55 -90, 55 0 ; 2 ; lit 6
         lid       main+14   rect -60 -100, 60 -78 ; 2
bag      handle    main-35   line -20 -70, -14 -92, 0 -98, 14 -92, 20 -70 ; 4
         -         main      rect -44 -72, 44 0 ; 8 ; pattern 6
sun      -         glow      disc 0 0 ; 120
clouds   -         cloud     cloud -100 24 | 100 26 | 0 0 ; 110 56
hill     -         far       blob -100 4, -40 -50, 0 -100, 50 -50, 110 4
tuft     -         ground-16 poly -15 0, -50 -100, 0 -20, 10 -110, 10 -20, 70 -90, 15 0
pebble   -         ground-12 disc 0 0 ; 140 100
flake    -         snow      disc 0 0 ; 100
foam     -         snow      line -5 0, 12 1.4, 28 -1, 45 1, 62 -1.2, 80 0.6, 105 -0.5 ; 1.2
skyline  -         far-6     rect -2 -22, 13 1 | 29 -30, 47 1 | 62 -18, 77 1 | 90 -26, 102 1
         -         far-14    rect 13 -33, 29 1 | 47 -20, 62 1 | 77 -34, 90 1
         -         far+25    rect 4 -18, 8 -14 | 18 -28, 23 -23 | 34 -25, 39 -20 | 52 -16, 56 -12 | 81 -29, 86 -24
road     -         ground+35 rect 0 0, 100 10
         -         snow      rect 3 30, 14 31.6 | 23 30, 34 31.6 | 43 30, 54 31.6 | 63 30, 74 31.6 | 83 30, 94 31.6
fence    -         wood+40   rect 0 -2, 100 -1.3 | 0 0.5, 100 1.2
         -         wood+30   rect 9 -4, 10 3 | 29 -4, 30 3 | 49 -4, 50 3 | 69 -4, 70 3 | 89 -4, 90 3
floor    -         ground-10 rect 0 -1, 100 0.4 | 0 4, 100 4.4 | 0 9, 100 9.4 | 0 16, 100 16.4 | 0 25, 100 25.4
rug      -         ink+60    disc 0 0 ; 36 10
scribble -         ink+25    line 0 0, 40 -30, 60 30, 110 10, 130 -40 ; 6
"""
